"""Operations on Arrow arrays that Arrow does wrongly, slowly or not at all for nested types.

All code in pilum that takes, filters or joins arrays which may be nested uses these functions.
"""
