"""How changes become versions: transactions, conflicts, who decides, jobs that count once."""
