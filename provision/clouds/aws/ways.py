"""Session Manager: the way in that AWS offers beside an open port."""

from __future__ import annotations

from provision.clouds.terms import Way

# The ProxyCommand is that of "Allowing SSH connections for Session Manager":
# docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-getting-started-enable-ssh-connections.html. It names the region,
# because the machine need not be in the region of the user's profile. The permissions:
# …/systems-manager/latest/userguide/getting-started-restrict-access-quickstart.html.
# gpuprov gives no instance role, so the account itself must let Systems Manager manage machines (IMDSv2 required, as here):
# …/systems-manager/latest/userguide/fleet-manager-default-host-management-configuration.html.
SSM = Way(
    name="ssm",
    opens=(),
    origin="",
    origin_detail="",
    needs=(
        "through `aws ssm`: the AWS CLI and its Session Manager plugin on this machine, credentials of a profile in ~/.aws",
        "the account's Default Host Management Configuration must be on in the region, since the machine has no instance role",
        "the image must have the SSM Agent, 3.2.582.0 or later",
    ),
    programs=("aws", "session-manager-plugin"),
    credential_variables=("AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"),
    permissions=("ssm:StartSession", "ssm:TerminateSession"),
    proxy_command="aws ssm start-session --target {id} --document-name AWS-StartSSHSession --parameters portNumber=%p --region {region}",
)
