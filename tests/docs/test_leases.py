"""What the guide about leases shows: its settings hold."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from holdfast.config import load
from tests.docs.test_blocks import blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "leases.md"


def test_the_settings_are_read_as_the_page_says(tmp_path: Path) -> None:
    """Promise: both files of the page load: several endpoints, TLS, a login, a prefix."""
    shown = [block.text for block in blocks_of(PAGE) if "[leases]" in block.text]
    assert len(shown) == 2
    for text, kind in zip(shown, ("etcd", "nats"), strict=True):
        (tmp_path / "holdfast.toml").write_text(text)
        leases = load(folder=tmp_path, environ={}).settings.leases
        assert (leases.type, leases.ttl, leases.on_loss) == (kind, timedelta(seconds=15), "store")
        assert len(leases.endpoints) == 3
        assert all((leases.prefix, leases.user, leases.password_file, leases.ca))
