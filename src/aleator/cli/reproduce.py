"""aleator reproduce and aleator report: every table and figure of the paper."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from aleator.cli.options import DATA_ROOT, JSON, QUIET, show_json, show_table
from aleator.words import RecipeName

QUICK_FOLDER = Path("results-quick")


def reproduce(
    study: Annotated[
        list[str] | None, typer.Argument(help="all, or names of studies. Without one, the studies are listed.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option(help="A dataset, as in fit; repeatable. Default: all that are at hand.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method, such as MF-AUR; repeatable. Default: all.")
    ] = None,
    recipe: Annotated[
        RecipeName | None,
        typer.Option(help="ours, test or paper. Default: all where the paper has figures, else ours."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 1,
    first_seed: Annotated[int, typer.Option(help="The first seed. Several machines can share the work.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Train briefly, to try things out. Default folder: {QUICK_FOLDER}.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Measure again what has a record; the latest record counts.")
    ] = False,
    dry: Annotated[bool, typer.Option("--dry", help="Say which cells have no record, and measure none.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of records. What has a record there is not measured again.")
    ] = None,
    report: Annotated[bool, typer.Option(help="Write the report of the folder at the end.")] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_root: DATA_ROOT = None,
    quiet: QUIET = False,
    json: JSON = False,
) -> None:
    """Measure the tables and figures of the paper, and compare them with the published numbers.

    Each cell of a table has one record. A run that was interrupted continues where it stopped.
    """
    from aleator.studies.report import report as reporting
    from aleator.studies.reproduce import reproduce as run

    if not study:
        show_studies(json)
        return
    out = out or (QUICK_FOLDER if quick else Path("results"))
    failed = run(
        study,
        dataset or (),
        methods=method or (),
        recipe=recipe,
        seeds=seeds,
        first_seed=first_seed,
        out=out,
        quick=quick,
        again=again,
        dry=dry,
        device=device,
        data_root=data_root,
        say=lambda line: print(line, file=sys.stderr if json else sys.stdout, flush=True),
    )
    page = reporting.write(out, out / "report") if report and not dry else None
    if json:
        show_json({"out": str(out), "report": page and str(page), "failed": failed})
    elif page:
        print(f"The report is {page}")
    if failed:
        print("\n".join(["These could not be measured:", *failed]), file=sys.stderr)
        raise typer.Exit(1)


def show_studies(json: bool) -> None:
    """List the studies with their titles."""
    from aleator.studies.reproduce import BEYOND, NAMES, studies

    listed = {name: studies(name)[0].title for name in (*NAMES, *BEYOND)}
    listed["beyond"] = f"{', '.join(BEYOND)} together"
    if json:
        show_json(listed)
    else:
        show_table(["study", "what it shows"], listed.items())


def report(
    results: Annotated[Path, typer.Argument(help="A folder of records, as aleator reproduce writes it.")] = Path(
        "results"
    ),
    out: Annotated[Path | None, typer.Option(help="Folder to write into. Default: RESULTS/report.")] = None,
) -> None:
    """Write report.html, report.md and report.json from a folder of records."""
    from aleator.studies.report import report as reporting

    print(reporting.write(results, out or results / "report"))
