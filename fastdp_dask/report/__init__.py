"""The report of a run: `report.html` for people, `report.json` for programs, from the run folder alone.

Everything in it is public or was released, so it may be published with the coefficients.  What a run took is not in it:
seconds and memory are those that the plan predicted from public facts, for a measured time or peak can depend on
records (caches, retries, compressed chunks).  Such figures go to the terminal and the log of the curator's operator,
and whoever reads a report is not the operator.  The place of the data and the released matrices stay out too.

Two reports of one run folder, by one version of the package, are equal to the last byte.
"""
