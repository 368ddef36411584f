"""Operations on Arrow arrays that Arrow does wrongly, slowly or not at all for nested types.

Everything in pilum that takes, filters or joins arrays which may be nested does it here.
"""
