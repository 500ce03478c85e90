"""What is so at this moment, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from tightset.service.room import Room


def gauges(room: Room) -> Iterator[tuple[str, str, dict[str, str], float]]:
    """Yield name, help, labels and value of each."""
    yield "tightset_workers", "Processes that share the port.", {}, room.settings.workers
    yield "tightset_started_seconds", "When the service started, Unix time.", {}, room.started_at
    yield "tightset_held_bytes", "Bytes of bodies that this worker is reading.", {}, room.bodies.held
    for model in room.models:
        labels = {"model": model.name, "version": model.version}
        about = "The models in service: labels, calibration rows and level as text."
        facts = {
            "alpha": f"{model.predictor.alpha:g}",
            "n_labels": f"{model.predictor.n_labels}",
            "n_calibration": f"{model.predictor.n_calibration}",
        }
        yield "tightset_model_info", about, {**labels, **facts}, 1.0
    about = "Whether the last reload left the old model in place, because of the new file."
    for name in room.names:
        yield "tightset_model_stale", about, {"model": name}, float(name in room.models.failures)
    if room.memory is None:
        return
    yield "tightset_remembered_requests", "Requests that wait for labels.", {}, len(room.memory)
    yield "tightset_remembered_bytes", "Memory of the rows that wait for labels.", {}, room.memory.nbytes
    watches = list(room.watches.items())
    for name, watch in watches:
        yield "tightset_alpha", "Level that sets are made at.", {"model": name}, watch.alpha
    for name, watch in watches:
        if watch.coverage is not None:
            about = "Share of labelled rows whose set had the label."
            yield "tightset_coverage", about, {"model": name}, watch.coverage
    for name, watch in watches:
        if watch.band is not None:
            for end, value in zip(("lower", "upper"), watch.band, strict=True):
                about = "Where coverage lies if rows are as in calibration."
                yield "tightset_coverage_band", about, {"model": name, "end": end}, value
    for name, watch in watches:
        if watch.monitor is not None:
            about = "Whether coverage has left what calibration promised."
            yield "tightset_coverage_alarm", about, {"model": name}, float(bool(watch.monitor.alarm))
    for name, watch in watches:
        if watch.monitor is not None:
            about = "Evidence against coverage as calibrated; the alarm is at 1 / level."
            evidence = float(watch.monitor.evidence)
            yield "tightset_coverage_evidence", about, {"model": name}, evidence
