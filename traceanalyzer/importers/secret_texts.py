"""Secrets in texts: assignments to names that tell of one, tokens of known form, logins in URLs.

What is written around them stays, so that a text is still known by it.
"""

from __future__ import annotations

import re
from typing import Final

REPLACED: Final = "[secret]"
_LOGIN: Final = "[somebody]@"
_HOST: Final = "[host]"

_TOKEN: Final = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"hf_(?:(?=[A-Za-z]*\d)[A-Za-z0-9]{12,}|[A-Za-z0-9]{30,})(?!\w)"
    r"|sk-(?=[\w-]*[0-9A-Z])[A-Za-z0-9_-]{12,}"
    r"|gh[opsur]_(?=[A-Za-z]*\d)[A-Za-z0-9]{16,}(?!\w)"
    r"|github_pat_\w{16,}|glpat-[\w-]{16,}|nvapi-[\w-]{16,}|xox[abeprs]-[\w-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}(?!\w)|AIza[\w-]{30,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
)
_TOKEN_STARTS: Final = (
    *("hf_", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "nvapi-"),
    *("xox", "AKIA", "ASIA", "AIza", "eyJ"),
)
_ENDS: Final = r"\s'\"`,;&<>(){}\[\]"
_ASSIGNED: Final = re.compile(
    # What is a number alone is a count: num_token=128.
    r"((?:TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|_KEY|_KEY_ID|CREDENTIALS?|_PASS|_AUTH|COOKIE"
    r"|(?i:api[_-]?key|password|passwd|secret|secret[_-]key|access[_-]key|auth[_-]key"
    r"|(?:access|auth|bearer)[_-]?token))"
    rf"['\"]?\s?[=:]\s?['\"]?)(?!\d+(?![^{_ENDS}])|\[)[^{_ENDS}]+"
)
_BEARER: Final = re.compile(r"(?<!\w)((?i:Bearer)\s)[A-Za-z0-9._~+/-]{12,}=*")
_URL: Final = re.compile(
    r"(?<![A-Za-z0-9])([A-Za-z][A-Za-z0-9+.-]{0,15}://)([^\s/@'\"<>]+@)?(\[[0-9A-Fa-f:.]+\]|[\w.-]*\w)?(:\d)?"
)
_PUBLIC: Final = re.compile(r"(?!.*\.(?:internal|intra|corp|lan|local)$).*\.[A-Za-z]{2,}", re.I)
_NOWHERE: Final = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]"})  # noqa: S104


def without_secrets(text: str) -> str:
    """A text whose secrets, and logins and machines in URLs, are replaced; most texts stay.

    A site (https://example.org) is no machine: one has a port, a login, or a name of a network.
    """
    if "://" in text:
        text = _URL.sub(_without_login, text)
    if "=" in text or ":" in text:
        text = _ASSIGNED.sub(rf"\1{REPLACED}", text)
    if any(start in text for start in _TOKEN_STARTS):
        text = _TOKEN.sub(REPLACED, text)
    return _BEARER.sub(rf"\1{REPLACED}", text) if "earer" in text or "EARER" in text else text


def _without_login(found: re.Match[str]) -> str:
    scheme, login, host, port = found.groups(default="")
    is_site = not login and not port and _PUBLIC.fullmatch(host)
    where = host if not host or is_site or host.lower() in _NOWHERE else _HOST
    return f"{scheme}{_LOGIN if login else ''}{where}{port}"
