"""What the deployment guide shows beside Python: its settings hold, and a cluster is told what fits its workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.config import Configuration, load
from holdfast.config.keys import keys
from holdfast.core.durations import parse_duration
from tests.docs.test_blocks import blocks_of, run
from tests.support.postgres import new_schema, server_url

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "deployment.md"


def block(name: str) -> str:
    (found,) = [block for block in blocks_of(PAGE) if block.name == name]
    return found.text


@pytest.mark.spec("stem.S61", "stepflow.C1", "stepflow.C3")
def test_the_settings_are_read_as_the_page_says(tmp_path: Path) -> None:
    """Promise: the file of the page loads, and shows the defaults it claims to show."""
    (tmp_path / "holdfast.toml").write_text(block("holdfast.toml"))
    settings = load(folder=tmp_path, environ={}).settings
    assert (settings.leases, settings.recovery) == (Configuration().leases, Configuration().recovery)
    assert settings.worker.id == "worker-1"
    for kind in ("etcd", "nats"):
        (tmp_path / "holdfast.toml").write_text(block(f"{kind}.toml"))
        assert load(folder=tmp_path, environ={}).settings.leases.type == kind
    text = PAGE.read_text()
    shown = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", text, re.MULTILINE))
    assert shown == {name for name in keys() if name.startswith("recovery.")}


@pytest.mark.spec("stepflow.C5", "stepflow.L15")
def test_the_cluster_gives_a_worker_the_time_it_takes() -> None:
    """Promise: the variables exist, and the pod's grace is longer than the worker's."""
    text = block("worker.yaml")
    variables = set(re.findall(r"name: (HOLDFAST_\w+)", text))
    assert variables <= {key.variable for key in keys().values()}
    assert "HOLDFAST_WORKER_ID" in variables
    grace = re.search(r"--grace, (\w+)", text)
    patience = re.search(r"terminationGracePeriodSeconds: (\d+)", text)
    assert grace is not None
    assert patience is not None
    assert parse_duration(f"{patience[1]}s", what="patience") > parse_duration(grace[1], what="grace")


def test_the_cluster_names_the_store_that_the_app_opens(tmp_path: Path) -> None:
    """Promise: the app of the page, with the variables of the pod, opens the database that the manifest names."""
    variables = dict(re.findall(r'{name: (\w+), value: "([^"]+)"}', block("worker.yaml")))
    (tmp_path / "shop.py").write_text(block("shop.py"))
    asked = [sys.executable, "-c", "from shop import app; print(app.url)"]
    environ = {**os.environ, **variables}
    opened = subprocess.run(asked, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True).stdout.strip()
    assert opened.startswith("postgresql://")
    assert opened in variables.values()


@pytest.mark.parametrize("place", [1, 2], ids=["one service", "two processes"])
def test_the_programs_run_unchanged_on_postgres(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the address is all that changes."""
    monkeypatch.setenv("SHOP_STORE", server_url(new_schema()))
    blocks = [block for block in blocks_of(PAGE) if block.is_python]
    run(blocks[place], blocks[:place], tmp_path)
