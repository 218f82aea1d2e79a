"""How far released coefficients are from the truth: standard errors and intervals from released numbers alone."""
