"""Those who send events, with the packages that people use. Argument: where the server is.

Each sends its event three times, and what was answered is printed: for each sender a list of statuses.
"""

import json
import sys
from datetime import datetime, timezone

import requests
import stripe
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks.webhooks import Webhook

base = sys.argv[1]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
answers = {}


def send(name, path, make):
    """Delivers three times; each delivery is made anew, as a sender does that tries again."""
    statuses = []
    for delivery in range(3):
        headers, body = make(delivery)
        statuses.append(requests.post(base + path, data=body, headers=headers, timeout=30).status_code)
    answers[name] = statuses


def cloudevent(make):
    attributes = {
        "id": "py-" + make.__name__,
        "source": "https://example.com/event-producer",
        "specversion": "1.0",
        "type": "com.example.sampletype1",
        "subject": "Grüße, \"quoted\" 100%",
        "time": datetime(2026, 11, 16, 6, 30, tzinfo=timezone.utc),
        "datacontenttype": "application/json",
    }
    message = make(CloudEvent(attributes, {"message": "Hello World!"}))
    return message.headers, message.body


def standard_webhook(_):
    body = '{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{"id":"1f81eb52"}}'
    now = datetime.now(tz=timezone.utc)
    headers = {
        "content-type": "application/json",
        "webhook-id": "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", now, body),
    }
    return headers, body


def stripe_signed(_):
    body = json.dumps(
        {
            "id": "evt_1NG8Du2eZvKYlo2CUI79vXWy",
            "object": "event",
            "created": 1686089970,
            "type": "payment_intent.succeeded",
            "data": {"object": {"id": "pi_1", "object": "payment_intent"}},
        },
        indent=2,
    )
    now = int(datetime.now(tz=timezone.utc).timestamp())
    signature = stripe.WebhookSignature._compute_signature(f"{now}.{body}", SECRET)
    header = f"t={now},v1={signature}"
    # What Stripe's own package does not take would prove nothing.
    stripe.Webhook.construct_event(body, header, SECRET)
    return {"content-type": "application/json; charset=utf-8", "stripe-signature": header}, body


def pubsub(delivery):
    body = {
        "deliveryAttempt": delivery + 1,
        "message": {
            "attributes": {"key": "value"},
            "data": "SGVsbG8gQ2xvdWQgUHViL1N1YiEgSGVyZSBpcyBteSBtZXNzYWdlIQ==",
            "messageId": "2070443601311540",
            "message_id": "2070443601311540",
            "publishTime": "2021-02-26T19:13:55.749Z",
            "publish_time": "2021-02-26T19:13:55.749Z",
        },
        "subscription": "projects/myproject/subscriptions/mysubscription",
    }
    return {"content-type": "application/json", "from": "noreply@google.com"}, json.dumps(body)


def eventbridge(_):
    body = {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": "EC2 Instance State-change Notification",
        "source": "aws.ec2",
        "account": "111122223333",
        "time": "2017-12-22T18:43:48Z",
        "region": "us-west-1",
        "resources": ["arn:aws:ec2:us-west-1:123456789012:instance/i-1234567890abcdef0"],
        "detail": {"instance-id": " i-1234567890abcdef0", "state": "terminated"},
    }
    return {"content-type": "application/json; charset=utf-8", "x-api-key": "a-key-of-ours"}, json.dumps(body)


send("binary", "/events", lambda _: cloudevent(to_binary_event))
send("structured", "/events", lambda _: cloudevent(to_structured_event))
send("standardwebhooks", "/sources/webhooks", standard_webhook)
send("stripe", "/sources/stripe", stripe_signed)
send("pubsub", "/sources/pubsub", pubsub)
send("eventbridge", "/sources/eventbridge", eventbridge)
print(json.dumps(answers))
