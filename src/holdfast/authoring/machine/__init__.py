"""Machines: workflows written as typed states, with a way back.

::

    machine ── the decorators ──▶ handlers ──▶ model     what authors write, read and checked whole
                                                 ├─ driver      under an app: on the script's deterministic loop
                                                 └─ diagram     as a picture

A machine under an app is a script whose steps are its states (ADR 0018); nothing here commits anything itself. How one
runs without an app is in `holdfast.standalone`.
"""
