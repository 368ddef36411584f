"""From changes to the next version: operations, conflicts, publication."""
