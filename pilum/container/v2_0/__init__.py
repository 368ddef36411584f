"""Files of version 2.0: read columns as Arrow arrays, and write them."""
