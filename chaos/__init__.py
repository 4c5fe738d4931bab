"""Proofs that need servers, proxies and other programs of the system. For developers: the package is not shipped."""
