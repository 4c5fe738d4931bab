"""Signatures: another library finds them good, old and new secrets side by side, and a bad secret is told but not shown."""

from __future__ import annotations

import base64
import json
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast import SettingError
from holdfast.events.webhook.signature import headers_of, secrets_of
from tests.events.receiver import OTHER_SECRET, SECRET

BODY = json.dumps({"type": "job.succeeded", "data": {"text": "naïve ☃ \u2028"}}).encode()


def test_another_library_verifies_ours() -> None:
    headers = headers_of(secrets_of(SECRET), "msg_1", int(time.time()), BODY)
    assert Webhook(SECRET).verify(BODY, headers) == json.loads(BODY)


def test_the_example_of_the_specification() -> None:
    headers = headers_of(secrets_of(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-timestamp"] == "1614265330"


@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "webhook-signature", "body"])
def test_every_part_of_it_is_signed(part: str) -> None:
    now = int(time.time())
    headers, body = headers_of(secrets_of(SECRET), "msg_1", now, BODY), BODY
    other = headers_of(secrets_of(OTHER_SECRET), "msg_2", now + 1, BODY)
    if part == "body":
        body = BODY.replace(b"succeeded", b"failed")
    else:
        headers[part] = other[part]
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, headers)


def test_two_secrets_at_a_time_while_receivers_change_over() -> None:
    headers = headers_of(secrets_of(f"{OTHER_SECRET}  {SECRET}"), "msg_1", int(time.time()), BODY)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for secret in (SECRET, OTHER_SECRET):
        Webhook(secret).verify(BODY, headers)


def test_a_secret_without_padding_is_the_same_secret() -> None:
    text = "whsec_" + base64.b64encode(b"x" * 25).decode()
    assert secrets_of(text) == secrets_of(text.rstrip("=")) == (b"x" * 25,)


BAD = {
    "no prefix": SECRET.removeprefix("whsec_"),
    "not base64": "whsec_secret!secret!secret!secret!secret!",
    "too short": "whsec_" + base64.b64encode(b"secret-of-23-bytes-here").decode(),
    "too long": "whsec_" + base64.b64encode(b"s" * 65).decode(),
    "the second of two": f"{SECRET} whsec_c2VjcmV0",
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_secret_is_told_but_not_shown(what: str) -> None:
    with pytest.raises(SettingError, match=r"HOLDFAST_WEBHOOK_SECRET: secret [12] ") as caught:
        secrets_of(BAD[what])
    assert not any(part.removeprefix("whsec_")[:12] in str(caught.value) for part in BAD[what].split())
    assert "openssl rand" in str(caught.value)


def test_no_secret_is_no_secret() -> None:
    assert secrets_of("  ") == ()
