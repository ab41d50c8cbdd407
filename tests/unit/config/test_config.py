"""Configuration: layers, types, hints, contradictions. No process, no store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import App, workflow
from holdfast.config import Configuration, Loaded, load
from holdfast.config.contradictions import MANAGER_KEYS
from holdfast.config.keys import keys, shown
from holdfast.errors import InvalidConfig
from holdfast.stores import open_store

# As the documentation shows it, every key with a value that is not its default.
EVERYTHING = """
app = "shop:app"
ignore = ["**/test_*.py"]
[store]
url = "sqlite:///shop.db"
auto_migrate = false
max_connections = 3
blobs = "store"
shared = false
[leases]
type = "store"
endpoints = []
ttl = "20s"
on_loss = "store"
prefix = "holdfast"
bucket = "holdfast"
replicas = 1
user = ""
password_file = ""
token_file = ""
credentials = ""
ca = ""
certificate = ""
private_key = ""
[recovery]
enabled = false
check_interval = "2s"
max_startup_recovery = 7
max_claims_per_check = 8
[upkeep]
keep = "90d"
snapshot_every = 500
compact_after = 0
sweep_interval = "1m"
blob_grace = "2d"
[worker]
id = "worker-1"
concurrency = 9
queues = ["default", "slow"]
poll = "500ms"
grace = 40
[http]
tokens = "t.json"
allowed_hosts = ["shop.example"]
session_key = "long"
"""


NATS = "[leases]\ntype = 'nats'\nendpoints = ['nats://nats-1:4222']\n"
ETCD = "[leases]\ntype = 'etcd'\nendpoints = ['http://etcd-1:2379']\n"


def loaded(folder: Path, text: str = "", *, environ: Mapping[str, str] | None = None, **flags: Any) -> Loaded:
    if text:
        (folder / "holdfast.toml").write_text(text)
    return load(folder=folder, environ=environ or {}, flags={k.replace("__", "."): v for k, v in flags.items()})


def refused(folder: Path, text: str = "", *, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(InvalidConfig) as caught:
        loaded(folder, text, environ=environ)
    return str(caught.value)


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    """Contract: no file, no variables: every key has its default, and says so."""
    found = loaded(tmp_path)
    assert found.settings == Configuration()
    assert set(found.origins.values()) == {"default"}


def test_every_key_is_read_and_typed(tmp_path: Path) -> None:
    """Contract: each documented key has an effect on the settings, and remembers its file."""
    found = loaded(tmp_path, EVERYTHING)
    settings = found.settings
    assert settings.store.url == f"sqlite:///{tmp_path}/shop.db"
    assert (settings.store.auto_migrate, settings.store.max_connections) == (False, 3)
    assert settings.leases.ttl == timedelta(seconds=20)
    assert settings.recovery.check_interval == timedelta(seconds=2)
    assert (settings.recovery.enabled, settings.recovery.max_startup_recovery) == (False, 7)
    assert settings.recovery.max_claims_per_check == 8
    upkeep = settings.upkeep
    assert (upkeep.keep, upkeep.snapshot_every, upkeep.compact_after) == (timedelta(days=90), 500, 0)
    assert (upkeep.sweep_interval, upkeep.blob_grace) == (timedelta(minutes=1), timedelta(days=2))
    assert settings.worker.queues == ("default", "slow")
    http = settings.http
    assert (http.tokens, http.allowed_hosts, http.session_key) == ("t.json", ("shop.example",), "long")
    assert (settings.worker.id, settings.worker.concurrency) == ("worker-1", 9)
    assert (settings.worker.poll, settings.worker.grace) == (timedelta(milliseconds=500), timedelta(seconds=40))
    told = {name for name, origin in found.origins.items() if origin != "default"}
    assert told == set(keys()) - {"discover"}


@pytest.mark.spec("openworkflow.O121")
def test_flags_win_over_the_environment_over_dotenv_over_the_file(tmp_path: Path) -> None:
    """Contract: each layer covers the one below, and `holdfast config` can say which one spoke."""
    text = '[leases]\nttl = "20s"\n[worker]\nconcurrency = 1\nqueues = ["a"]\ngrace = "1s"'
    (tmp_path / ".env").write_text(
        "# ours and others\nOTHER=1\nexport HOLDFAST_WORKER_CONCURRENCY=2\nHOLDFAST_WORKER_QUEUES='b, c'\n"
    )
    environ = {"HOLDFAST_WORKER_QUEUES": "d", "HOLDFAST_RECOVERY_ENABLED": "false", "HOLDFAST_WORKER_GRACE": ""}
    found = loaded(tmp_path, text, environ=environ, leases__ttl=timedelta(seconds=30), worker__concurrency=None)
    assert found.settings.leases.ttl == timedelta(seconds=30)
    assert found.settings.worker.concurrency == 2
    assert found.settings.worker.queues == ("d",)
    assert not found.settings.recovery.enabled
    assert found.origins["leases.ttl"] == "--ttl"
    assert found.origins["worker.concurrency"] == f"$HOLDFAST_WORKER_CONCURRENCY in {tmp_path / '.env'}"
    assert found.origins["worker.queues"] == "$HOLDFAST_WORKER_QUEUES"
    assert found.origins["worker.grace"] == str(tmp_path / "holdfast.toml")
    assert found.origins["recovery.enabled"] == "$HOLDFAST_RECOVERY_ENABLED"


def test_every_key_has_a_variable(tmp_path: Path) -> None:
    """Contract: what a file can say, the environment can say."""
    wanted = msgspec.to_builtins(loaded(tmp_path, EVERYTHING).settings)
    (tmp_path / "holdfast.toml").unlink()
    environ: dict[str, str] = {}
    for key in keys().values():
        value: Any = wanted
        for part in key.name.split("."):
            value = value[part]
        environ[key.variable] = ",".join(value) if key.is_list else str(value).lower()
    environ |= {"HOLDFAST_LEASES_TTL": "20s", "HOLDFAST_WORKER_POLL": "500ms", "HOLDFAST_WORKER_GRACE": "40s"}
    environ |= {"HOLDFAST_RECOVERY_CHECK_INTERVAL": "2s", "HOLDFAST_UPKEEP_KEEP": "90d"}
    environ |= {"HOLDFAST_UPKEEP_SWEEP_INTERVAL": "1m", "HOLDFAST_UPKEEP_BLOB_GRACE": "2d"}
    assert msgspec.to_builtins(loaded(tmp_path, environ=environ).settings) == wanted


@pytest.mark.spec("openworkflow.O121")
def test_pyproject_is_a_place_too_and_folders_above_are_searched(tmp_path: Path) -> None:
    """Contract: the first folder upwards that configures Holdfast counts; its paths are relative to it."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n[tool.holdfast]\nstore.url = "sqlite:///a.db"\n')
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    (below.parent / "pyproject.toml").write_text('[project]\nname = "no section of ours"\n')
    found = loaded(below)
    assert found.file == tmp_path / "pyproject.toml"
    assert found.folder == tmp_path
    assert found.settings.store.url == f"sqlite:///{tmp_path}/a.db"


def test_the_default_store_lies_beside_the_file(tmp_path: Path) -> None:
    """Contract: from any folder of a project the same store is meant; a variable's address is taken as it is."""
    (tmp_path / "below").mkdir()
    loaded(tmp_path, '[worker]\nid = "w"')
    assert loaded(tmp_path / "below").settings.store.url == f"sqlite:///{tmp_path}/holdfast.db"
    environ = {"HOLDFAST_URL": "sqlite:///mine.db"}
    assert loaded(tmp_path / "below", environ=environ).settings.store.url == "sqlite:///mine.db"


@pytest.mark.spec("openworkflow.O121")
def test_a_named_file_is_the_only_one(tmp_path: Path) -> None:
    """Contract: HOLDFAST_CONFIG never falls back to another file."""
    loaded(tmp_path, '[worker]\nid = "w"')
    (tmp_path / "other.toml").write_text("[worker]\nconcurrency = 5")
    found = loaded(tmp_path, environ={"HOLDFAST_CONFIG": "other.toml"})
    assert (found.settings.worker.id, found.settings.worker.concurrency) == ("", 5)
    assert "configuration file does not exist" in refused(tmp_path, environ={"HOLDFAST_CONFIG": "missing.toml"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[worker]\nconcurency = 1", ["unknown key concurency in [worker]", "Did you mean concurrency?"]),
        ("[wroker]\nid = 'x'", ["unknown key wroker", "Did you mean [worker]?"]),
        ("ttl = '3s'", ["unknown key ttl", "Did you mean [leases] ttl?"]),
        ("[store]\nzzz = 1", ["unknown key zzz", "Known are: url"]),
        ("worker = 3", ["worker is a section"]),
        ("[worker]\nconcurrency = 'ten'", ["[worker] concurrency", '"ten"', "a whole number"]),
        ("[worker]\nconcurrency = 0", ["[worker] concurrency", ">= 1"]),
        ("[worker]\nconcurrency = true", ["[worker] concurrency", "a whole number"]),
        ("[worker]\nqueues = 'slow'", ["[worker] queues is a list", '["slow"]']),
        ("[worker]\nqueues = []", ["at least one queue"]),
        ('[worker]\nqueues = ["a\\nb"]', ["[worker] queues"]),
        ('[worker]\nid = "a\\u0000b"', ["[worker] id"]),
        ("[leases]\nttl = 'soon'", ["[leases] ttl", "not a duration"]),
        ("[leases]\nttl = '0s'", ["[leases] ttl", "must be longer than zero"]),
        ("[leases]\nttl = '1s'", ["[leases] ttl", "[worker] poll", "default", "no room for two polls"]),
        ("[leases]\ntype = 'etcd'", ["[leases] type", "needs [leases] endpoints"]),
        ("[leases]\ntype = 'nats'", ["[leases] type", "needs [leases] endpoints", "nats://nats-1:4222"]),
        (NATS + "bucket = 'a.b'", ["[leases] bucket", "letters, digits"]),
        (NATS + "replicas = 0", ["[leases] replicas", ">= 1"]),
        (NATS + "ttl = '1s'", ["[leases] ttl", "nats counts in whole seconds"]),
        (NATS + "token_file = 't'\ncredentials = 'c'", ["[leases] token_file", "[leases] credentials", "one way"]),
        (ETCD + "bucket = 'mine'", ["[leases] bucket", "contradicts", "[leases] type"]),
        ("[leases]\nprefix = 'mine'", ["[leases] prefix", "contradicts", "[leases] type"]),
        (ETCD + "prefix = 'a//b'", ["[leases] prefix", "between single slashes"]),
        (ETCD + "ttl = '1s'", ["[leases] ttl", "whole seconds"]),
        (ETCD + "user = 'me'", ["[leases] user", "[leases] password_file", "belong together"]),
        (ETCD + "certificate = 'a.pem'", ["[leases] certificate", "[leases] private_key", "belong together"]),
        (ETCD + "on_loss = 'panic'", ["[leases] on_loss", "panic"]),
        ("[leases]\ntype = 'zookeeper'", ["[leases] type", "zookeeper"]),
        ("[leases]\nendpoints = ['a:1']", ["[leases] endpoints", "contradicts", "[leases] type"]),
        ("[store]\nblobs = 'shared'", ["[store] blobs", "file:///shared/folder"]),
        ("[store]\nshared = true", ["[store] shared", "kept elsewhere"]),
        ("[store]\nauto_migrate = 'yes'", ["[store] auto_migrate", "true or false"]),
        ("app = 'shop:app'\ndiscover = ['flows']", ["app", "contradicts", "discover"]),
        ("[recovery]\nmax_claims_per_check = -1", ["[recovery] max_claims_per_check"]),
        ("[recovery]\ncheck_interval = '0s'", ["[recovery] check_interval"]),
        ("[upkeep]\nkeep = 'always'", ["[upkeep] keep", "not a duration"]),
        ("[upkeep]\nblob_grace = 'forever'", ["[upkeep] blob_grace", "not a duration"]),
        ("[upkeep]\nsweep_interval = '0s'", ["[upkeep] sweep_interval", "must be longer than zero"]),
        ("[upkeep]\nsnapshot_every = -1", ["[upkeep] snapshot_every", ">= 0"]),
        ("[upkeep]\ncompact_rows = 5", ["unknown key compact_rows in [upkeep]", "compact_after"]),
        ("keep = '3d'", ["unknown key keep", "Did you mean [upkeep] keep?"]),
        ("app = \n", ["is not TOML", "line 1"]),
    ],
    ids=lambda value: value.replace("\n", " ") if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_key(tmp_path: Path, text: str, words: list[str]) -> None:
    """Contract: unknown keys get a hint, wrong values their type, contradictions both sides; each names the file."""
    message = refused(tmp_path, text)
    assert str(tmp_path / "holdfast.toml") in message
    assert all(word in message for word in words), message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"HOLDFAST_WORKER_CONCURENCY": "3"}, ["$HOLDFAST_WORKER_CONCURENCY", "Did you mean $HOLDFAST_WORKER_CONCURR"]),
        ({"HOLDFAST_WORKER_CONCURRENCY": "many"}, ["$HOLDFAST_WORKER_CONCURRENCY", '"many"', "a whole number"]),
        ({"HOLDFAST_LEASES_TTL": "15"}, ["$HOLDFAST_LEASES_TTL", "no unit"]),
        ({"HOLDFAST_RECOVERY_ENABLED": "perhaps"}, ["$HOLDFAST_RECOVERY_ENABLED", "true or false"]),
        ({"HOLDFAST_STORE_URL": "sqlite:///x"}, ["$HOLDFAST_URL"]),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_wrong_variable_is_named(tmp_path: Path, environ: dict[str, str], words: list[str]) -> None:
    message = refused(tmp_path, environ=environ)
    assert all(word in message for word in words), message


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    """Contract: what a cluster says about a service called holdfast-worker, and users' own variables, stop nothing."""
    others = {"HOLDFAST_WORKER_PORT": "tcp://1", "HOLDFAST_WORKER_SERVICE_HOST": "1", "HOLDFAST_DEPLOYED_BY": "me"}
    assert loaded(tmp_path, environ=others).settings == Configuration()


def test_two_configurations_of_one_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.holdfast]\napp = 'a:b'")
    message = refused(tmp_path, "app = 'a:b'")
    assert "holdfast.toml" in message
    assert "pyproject.toml" in message


def test_a_file_of_another_user_further_up_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: somebody else's file above the current folder is refused, unless it is named."""
    below = tmp_path / "below"
    below.mkdir()
    loaded(tmp_path, "app = 'evil:app'")
    owner = (tmp_path / "holdfast.toml").stat().st_uid
    if owner == 0:
        os.chown(tmp_path / "holdfast.toml", 12345, -1)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert "another user" in refused(below)
    assert loaded(below, environ={"HOLDFAST_CONFIG": "../holdfast.toml"}).settings.app == "evil:app"


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_bytes(b"\xff\xfe")
    assert "is not TOML" in refused(tmp_path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """Contract: the parsed file is kept, but not beyond its next change."""
    assert loaded(tmp_path, "app = 'a:b'").settings.app == "a:b"
    assert loaded(tmp_path, "app = 'other:b'").settings.app == "other:b"


def test_values_are_shown_as_a_file_would_hold_them() -> None:
    """Contract: a duration, a list and a text parse again as they are shown."""
    assert shown(timedelta(minutes=90)) == '"1h30m"'
    assert shown(timedelta(milliseconds=500)) == '"500ms"'
    assert shown(timedelta(0)) == '"0s"'
    assert shown(("a", "b")) == '["a","b"]'
    assert shown(True) == "true"


@pytest.mark.spec("openworkflow.O120")
async def test_an_app_asks_the_same_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: without an address of its own an app takes that of the project, and the file's leases and recovery."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_URL", raising=False)
    (tmp_path / "holdfast.toml").write_text(
        '[store]\nurl = "sqlite:///shop.db"\n[leases]\nttl = "40s"\n[recovery]\nmax_claims_per_check = 3'
        '\n[worker]\nid = "worker-1"\nqueues = ["slow"]'
    )
    app = App()
    assert app.url == f"sqlite:///{tmp_path}/shop.db"
    assert App("memory://").url == "memory://"
    async with app.worker() as worker:
        assert worker.options.ttl == timedelta(seconds=40)
        assert worker.options.recovery.max_claims_per_check == 3
        assert worker.options.queues == ("default",)  # an embedded worker is not the process of `holdfast worker`
        assert not worker.options.is_configured
    assert (tmp_path / "shop.db").exists()


@pytest.mark.spec("stepflow.C3")
async def test_migrations_can_be_left_to_somebody_else(tmp_path: Path) -> None:
    """Contract: with auto_migrate = false a store without its schema is refused, not made."""
    found = loaded(tmp_path, "[store]\nauto_migrate = false")
    from holdfast.errors import StoreRefused

    with pytest.raises(StoreRefused, match="automatic migration is off"):
        await App(config=found.settings).client()


@pytest.mark.spec("stepflow.C3", "stepflow.C6")
async def test_the_address_says_how_long_runs_are_kept(tmp_path: Path) -> None:
    """Contract: the memory of one store is not that of the next; a file that is opened again has what was written."""

    @workflow
    async def order() -> None: ...

    for address, is_kept in (("memory://", False), (f"sqlite:///{tmp_path}/shop.db", True)):
        store = await open_store(address)
        await App(store=store, workflows=[order]).start(order(), id="order-1")
        await store.close()
        again = await open_store(address)
        assert (await again.get("order-1") is not None) == is_kept, address
        await again.close()


def test_what_the_guide_shows_is_accepted(tmp_path: Path) -> None:
    """Contract: the configuration in the guide can be copied, and names every key that has an effect."""
    guide = Path(__file__).resolve().parents[3] / "docs" / "guides" / "command-line.md"
    text = guide.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    found = loaded(tmp_path, text)
    untold = {name for name, origin in found.origins.items() if origin == "default"}
    of_managers = {f"leases.{name}" for name in MANAGER_KEYS}
    assert untold == {"discover", "store.shared", *of_managers}  # each contradicts another there


def test_runs_may_be_kept_for_ever(tmp_path: Path) -> None:
    """Contract: `keep = "forever"`, in a file as in a variable, and shown so again."""
    for found in (
        loaded(tmp_path, '[upkeep]\nkeep = "forever"'),
        loaded(tmp_path, environ={"HOLDFAST_UPKEEP_KEEP": "forever"}),
    ):
        assert found.settings.upkeep.keep is None
        assert shown(found.settings.upkeep.keep) == '"forever"'


def test_an_app_says_it_before_the_configuration(tmp_path: Path) -> None:
    """Contract: what `App(…)` is given holds; what it is not given is as `[upkeep]` says, and `compact_after = 0` means
    only when asked for."""
    config = loaded(tmp_path, EVERYTHING).settings
    said = App(config=config).settings
    assert (said.keep, said.snapshot_every, said.compact_after) == (timedelta(days=90), 500, None)
    own = App(config=config, keep=None, snapshot_every=0, compact_after=7).settings
    assert (own.keep, own.snapshot_every, own.compact_after) == (None, 0, 7)
    usual = App(config=Configuration()).settings
    assert (usual.keep, usual.snapshot_every, usual.compact_after) == (timedelta(days=30), 1000, 10_000)
    options = App("memory://", config=config)
    assert options.settings is options.settings
