"""What a fit costs and what it buys, predicted from public facts: shapes, chunks, workers and machine constants.

`machine` holds the constants, `measure` finds them and `cache` keeps them; `layout` says how the data lies and who
computes; `passes` counts seconds, bytes and memory; `risk` predicts errors; `choice` picks a solver.  No data value is
read, and no privacy depends on what is predicted here.
"""
