"""The audit beside other tools: it judges what everybody sees, and names the event, the file or the commit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import SparkSession

from pipeline.audit.selftest import SelftestRecord
from pipeline.storage import LakeStorage
from tests.pipeline.foreign import delta, edit
from tests.pipeline.test_altered_log import partition, statistic
from tests.pipeline.test_audit_command import archived, audit, events
from tests.pipeline.test_tampering import found_in

__all__ = ["events"]


def test_what_rearranges_is_clean_and_what_deletes_is_named(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """GP-01: "Wrong basePath" after one OPTIMIZE; a DELETE is named by the audit's own finding and by its commit."""
    lake, gone = LakeStorage(lake_uri), events[2]
    archived(lake_uri, events[:4])
    archived(lake_uri, events[4:])
    delta(lake).optimize.z_order(["offset"])
    clean, report = audit(lake_uri)
    assert (clean, report["lake"], report["records"]) == (0, [], 8)
    delta(lake).delete(f"event_number = {gone.number}")
    code, report = audit(lake_uri)
    [said] = report["lake"]
    assert (code, found_in(report)) == (1, {("lost", gone.event_id)})
    assert f"commit {delta(lake).version()}, DELETE by delta-rs" in said
    assert f"it added 0 rows and removed 1: {gone.event_id}" in said


@pytest.mark.parametrize("member", ["minValues", "maxValues"])
def test_a_wrong_statistic_is_a_finding(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord], member: str
) -> None:
    """GP-03: every other reader left rows out, and the audit exited 0."""
    archived(lake_uri, events)
    clean = audit(lake_uri)[0]
    edit(LakeStorage(lake_uri), 1, statistic(member, event_number=events[3].number))
    code, report = audit(lake_uri)
    assert (clean, code) == (0, 1)
    rows = [said for said in report["lake"] if "which the database knows, was altered" not in said]
    assert {"of event_number, and it is" in said for said in rows} == {True}, report["lake"]


def test_a_wrong_partition_value_is_a_finding_with_its_events(
    spark: SparkSession, lake_uri: str, events: Sequence[SelftestRecord]
) -> None:
    """GP-03: for every other reader the events were in another topic."""
    archived(lake_uri, events)
    edit(LakeStorage(lake_uri), 1, partition("topic", "carts"))
    code, report = audit(lake_uri, "--examples", "8")
    assert code == 1
    assert {said.partition(": ")[2] for said in report["lake"]} == {"the log says topic carts, and its folder orders"}
    assert {(fault, event.event_id) for event in events for fault in ("lost", "phantom")} <= found_in(report)
