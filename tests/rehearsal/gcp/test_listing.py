"""Lists by label and status, in pages."""

from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import ZONE, Gce, fresh


def test_lists_by_label_and_status_over_one_zone_and_all(gce: Gce) -> None:
    group = fresh()
    here = gce.made(labels={"gpuprov-name": group, "owner": "x"})
    there = gce.made(zone="europe-west4-a", labels={"gpuprov-name": group})
    gce.done(gce.instances.stop_unary(project=gce.project, zone=ZONE, instance=here))
    assert gce.names(f"labels.gpuprov-name={group}") == [here]
    assert gce.names(f'labels.gpuprov-name="{group}" AND status=RUNNING') == []

    def everywhere(where: str) -> list[str]:
        asked = c.AggregatedListInstancesRequest(project=gce.project, filter=where)
        return [i.name for _, scoped in gce.instances.aggregated_list(asked) for i in scoped.instances]

    assert sorted(everywhere(f"labels.gpuprov-name = {group}")) == sorted([here, there])
    assert everywhere(f"(labels.gpuprov-name = {group}) (status = RUNNING)") == [there]
    assert everywhere(f"labels.gpuprov-name = {group} AND labels.owner:*") == [here]
    pages = c.AggregatedListInstancesRequest(project=gce.project, filter=f"labels.gpuprov-name = {group}", max_results=1)
    found = [i.name for _, scoped in gce.instances.aggregated_list(pages) for i in scoped.instances]
    assert sorted(found) == sorted([here, there])
