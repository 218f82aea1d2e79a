"""`fastdp`: the commands, and what their exit codes mean."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from fastdp_dask.commands import (
    audit,
    certificates,
    demo,
    doctor,
    fit,
    ingest,
    jobs,
    ledger,
    outcome,
    plan,
    predict,
    report,
    run_job,
    submit,
)

_HELP = "Differentially private linear regression for data larger than memory."
_CODES = "Exit codes: 0 done; 1 error; 2 wrong usage; 3 budget refused, never retry; 75 checkpointed, run again."

app = typer.Typer(
    name="fastdp",
    help=_HELP,
    epilog=_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,  # such a traceback shows local variables, which hold data
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"fastdp {version('fastdp-dask')}")
        raise typer.Exit()


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    pass


app.command("demo")(outcome.reported(demo.demo))
app.command("ingest")(outcome.reported(ingest.ingest))
app.command("fit")(outcome.reported(fit.fit))
app.command("plan")(outcome.reported(plan.plan))
app.command("predict")(outcome.reported(predict.predict))
app.command("report")(outcome.reported(report.report))
app.command("audit")(outcome.reported(audit.run_audit))
app.command("submit")(outcome.reported(submit.submit))
app.command("jobs")(outcome.reported(jobs.jobs))
app.command("run-job", hidden=True)(outcome.reported(run_job.run_job))
app.command("doctor")(outcome.reported(doctor.doctor))
app.command("certificates")(outcome.reported(certificates.certificates))
app.add_typer(ledger.app, name="ledger", help="The budget of a data set: init, show, verify.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fastdp` with `arguments` (None: those of the process) and return its exit code."""
    try:
        code = app(args=None if arguments is None else list(arguments), prog_name="fastdp", standalone_mode=False)
    except Exception as error:
        # What a command itself raises has become an exit code by now: this is the parser, speaking of usage.
        message = getattr(error, "format_message", None)
        text = message() if callable(message) else type(error).__name__
        if text:  # empty when the help was asked for by giving no argument
            outcome.say_error(f"{text.rstrip('.')}.", "See fastdp --help, or --help after a command.")
        return outcome.USAGE
    return code if isinstance(code, int) else outcome.DONE


if __name__ == "__main__":
    sys.exit(main())
