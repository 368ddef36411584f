"""Files of version 2.0: columns to Arrow arrays and back."""
