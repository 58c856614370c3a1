"""A client as people write them: requests, with urllib3's retries. Arguments: URL, key, read timeout in seconds."""

import json
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

url, key, timeout = sys.argv[1], sys.argv[2], float(sys.argv[3])
retry = Retry(
    total=60,
    allowed_methods=None,
    status_forcelist=[409, 502, 503, 504],
    backoff_factor=0.05,
    backoff_max=0.2,
    respect_retry_after_header=False,
)
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=retry))
response = session.post(
    url,
    json={"amount": 100},
    headers={"Idempotency-Key": f'"{key}"', "Authorization": "Bearer ann"},
    timeout=(10, timeout),
)
print(
    json.dumps(
        {
            "status": response.status_code,
            "body": response.json(),
            "replayed": response.headers.get("Idempotency-Replayed"),
            "retries": len(response.raw.retries.history),
        }
    )
)
