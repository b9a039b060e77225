"""What can be changed in the embedded DigitalOcean while it runs."""

from typing import Any

from provision.structs import MutableStruct, field


class DigitaloceanSettings(MutableStruct):
    """The fields of `/_rehearsal/settings` that are DigitalOcean's."""

    do_active_s: float | None = 0.3  # seconds from the create to `active`; half of them without an address. None: it stays `new`
    # region or host → how a create that was accepted ends there: `errored`, as in ansible-collections/community.digitalocean#150,
    # `gone`, as in digitalocean/api-v2#90 and hashicorp/terraform#481, or `new`, in which it stays
    do_create_ends: dict[str, str] = field(default_factory=dict)
    do_action_s: float = 0.2  # seconds that an action takes which is not a create
    do_gone_s: float = 0.2  # seconds from the answer to a delete until the droplet is gone; until then it is shown as it was
    # DigitalOcean applies tags "after it is created", and lists show a droplet later than its own GET. None: a third of a second at most,
    # of each droplet another time, which the seed decides.
    do_seed: int = 7
    do_tags_s: float | None = None  # seconds from the create to the droplet's tags
    do_firewall_s: float = 0.0  # seconds until a firewall, or a droplet that is new to it, is protected; until then it is `waiting`
    do_firewall_fails: bool = False  # whether a change of a firewall ends as `failed`
    do_unseen_s: float | None = None  # seconds from the create during which no list shows the droplet
    # region → how many droplets with GPUs it can hold; a region without an entry has no end of them
    do_capacity: dict[str, int] = field(default_factory=dict)
    do_size_regions: dict[str, list[str]] = field(default_factory=dict)  # size → the regions that have it, instead of the usual ones
    do_gpu_access: bool = True  # whether the account may make droplets with GPUs: a new one may not
    do_droplet_limit: int = 25  # the most droplets of the account, those that are off included
    do_volume_limit: int | None = 100  # the most volumes of the account; None: the answer does not have it
    do_email_verified: bool = True
    do_account_status: str = "active"  # active, warning or locked
    do_token_valid: bool = True  # False: the token was revoked, or has expired
    do_scopes: list[str] | None = None  # the scopes of the token, such as `droplet:create`; None for all
    # The document says neither whether a list by tag shows droplets with GPUs; its letter is that only `type=gpus` does.
    do_tag_lists_gpus: bool = False
    do_new_can_be_deleted: bool = False  # False: a droplet with a pending event, such as its create, is not deleted (packer#1814)
    # docs.digitalocean.com/reference/api, "Rate Limit": for each token, and for the list of SSH keys
    do_limit_hour: int = 5000
    do_limit_minute: int = 250
    do_limit_key_lists: int = 10
    do_images: list[dict[str, Any]] = field(default_factory=list)  # images of one's own: `id`, `name`, `distribution`, `regions`, `system`
