"""The permissions that our calls need, apart from the SDK so that a plan can name them in milliseconds."""

from __future__ import annotations

from typing import Final

__all__ = ["PERMISSIONS"]

PERMISSIONS: Final = (
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateSecurityGroup",
    "ec2:CreateTags",
    "ec2:DeleteKeyPair",
    "ec2:DeleteSecurityGroup",
    "ec2:DescribeInstances",
    "ec2:DescribeKeyPairs",
    "ec2:DescribeSecurityGroups",
    "ec2:GetConsoleOutput",
    "ec2:ImportKeyPair",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "ssm:GetParameter",
)
"""What launching, listing and destroying needs, and nothing else."""
