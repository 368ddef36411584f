"""Array encodings of file version 2.0, one file each."""
