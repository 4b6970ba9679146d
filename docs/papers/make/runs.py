"""Studies: lists of cases that are run one by one, kept as JSON, and continued where a run ended.

A study is a module of this folder with `TITLE`, `cases(quick)`, `run(case)` and `check(case, found)`. A
case is a flat dictionary of what is varied, and a run returns one of what came out. Both are kept, with
machine, date and commit, in `docs/papers/results/<study>.json`, a case a line.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import qpsvm

Case = dict[str, Any]
RESULT_FOLDER = Path(__file__).resolve().parents[1] / "results"


def key(case: Case) -> str:
    """Return a name under which a case is found again."""
    return json.dumps(case, sort_keys=True)


def kept(study: str) -> dict[str, Case]:
    """Return the records of a study by the key of their case."""
    file = RESULT_FOLDER / f"{study}.json"
    records = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    return {key(record["case"]): record for record in records}


def keep(study: str, records: dict[str, Case]) -> None:
    """Write all records, in place of the file as it was."""
    RESULT_FOLDER.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(record) for record in records.values())
    part = RESULT_FOLDER / f"{study}.json.part"
    part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    part.replace(RESULT_FOLDER / f"{study}.json")


def origin() -> Case:
    """Return where and when a record is made."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "versions": f"qpsvm {qpsvm.__version__}, numpy {np.__version__}",
    }


def missing(study: str, wanted: list[Case]) -> Iterator[Case]:
    """Yield the cases that are not kept yet."""
    records = kept(study)
    return (case for case in wanted if key(case) not in records)


def carry_out(study: str, wanted: list[Case], run: Callable[[Case], Case]) -> None:
    """Run what is missing, with a progress bar; a case whose data are not at hand is said."""
    records = kept(study)
    for case in tqdm(list(missing(study, wanted)), desc=study, leave=False):
        try:
            found = run(case)
        except qpsvm.InputError as error:
            tqdm.write(f"{study}: {case} is left out: {error}")
            continue
        records[key(case)] = {"case": case, "found": found, "origin": origin()}
        keep(study, records)
