"sha256-JW0VEcKZGcZJlhlnlEb2/RRZgeAdt3MWNE7VdwSghyc="
