"""The shapes of the catalog's data, by subject. msgspec checks them on every read, so data of another shape, ours or refreshed, is refused.

Every record says where its figures were read; `Source.grade` says what that is worth.
"""
