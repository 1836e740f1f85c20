"""Documents of `archcli profile` against their JSON Schema, by the jsonschema package."""

import json
from functools import cache


@cache
def validator():
    """Made when it is first needed: most tests print no profile."""
    from jsonschema import Draft202012Validator

    from archcli.wings.serving.recorded.schema import json_schema

    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def conforms(args, printed):
    """Raises AssertionError with the place where a profile's JSON does not fit; anything else passes."""
    if args and args[0] == "profile" and "--json" in args and printed:
        from archcli.wings.serving.recorded.schema import first_violation

        document = json.loads(printed)
        assert validator().is_valid(document), first_violation(document)
