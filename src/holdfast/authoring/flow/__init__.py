"""Flows: workflows written as data, in YAML, JSON or Python.

::

    file ──▶ yaml_text | json_text ──▶ reading ──▶ model ──▶ checking     text with positions, read and checked whole
                                        builder ──▶  ├─ format            canonical JSON and its hash: what runs execute
                                                     ├─ diagram           as a picture
                                                     └─ program           on the script's deterministic loop

    expressions ── parsing · written · evaluating       `${…}`: a small tree, its text, its value

Nothing here reads a clock or commits anything; a flow calls only what its app serves, by name.
"""
