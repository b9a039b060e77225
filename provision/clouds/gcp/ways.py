"""Identity-Aware Proxy: the way in that GCP offers beside a public address."""

from __future__ import annotations

from provision.clouds.terms import Way

# All connections of Identity-Aware Proxy come from this range: https://cloud.google.com/iap/docs/using-tcp-forwarding, "Create a firewall
# rule"; the permission is from "Grant roles" on the same page. Machines are reached by IPv4, so the IPv6 range there is not opened.
_RANGE = "35.235.240.0/20"
# The command: cloud.google.com/sdk/gcloud/reference/compute/start-iap-tunnel. `gcloud compute ssh --tunnel-through-iap --dry-run` itself
# puts --listen-on-stdin into its ProxyCommand (googlecloudsdk/command_lib/compute/iap_tunnel.py).
IAP = Way(
    name="iap",
    opens=(_RANGE,),
    origin="Google's Identity-Aware Proxy only",
    origin_detail="Google's Identity-Aware Proxy only, which checks who connects",
    needs=("through `gcloud compute start-iap-tunnel`: the Google Cloud CLI on this machine, logged in (`gcloud auth login`)",),
    programs=("gcloud",),
    credential_variables=("CLOUDSDK_ACTIVE_CONFIG_NAME", "CLOUDSDK_CONFIG"),
    permissions=("iap.tunnelInstances.accessViaIAP",),
    proxy_command="gcloud compute start-iap-tunnel {id} %p --listen-on-stdin --zone {zone} --project {project}",
)
