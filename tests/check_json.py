"""Compares a JSON result with its table in docs/json.md: every key is documented, every documented
key exists, types agree.

Usage: check_json.py docs/json.md SECTION < result.json
"""
import json, re, sys

KINDS = {'text': lambda v: isinstance(v, str), 'bool': lambda v: isinstance(v, bool),
         'integer': lambda v: isinstance(v, int) and not isinstance(v, bool),
         'number': lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
         'object': lambda v: isinstance(v, dict), 'list': lambda v: isinstance(v, list), 'null': lambda v: v is None}


def documented(path, section):
    text = open(path, encoding='utf-8').read()
    part = re.search(r'^## %s$(.*?)(?=^## |\Z)' % re.escape(section), text, re.M | re.S).group(1)
    return dict(re.findall(r'^\| `([^`]+)` \| ([a-z ]+) \|', part, re.M))


def walk(value, path, rows, seen, faults):
    if path:
        kinds = rows.get(path)
        if kinds is None:
            faults.append('%s is not documented' % path)
        elif not any(KINDS[kind](value) for kind in kinds.split(' or ')):
            faults.append('%s is %r, documented as %s' % (path, value, kinds))
        seen[path] = seen.get(path, False) or (value is not None and value != [])
    if isinstance(value, dict):
        for key, member in value.items():
            walk(member, path + '.' + key if path else key, rows, seen, faults)
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, (dict, list)):
                walk_element(element, path + '[]', rows, seen, faults)


def walk_element(element, path, rows, seen, faults):
    for key, member in element.items():
        walk(member, path + '.' + key, rows, seen, faults)


def parent(path):
    return path.rsplit('.', 1)[0].removesuffix('[]') if '.' in path else ''


rows, seen, faults = documented(sys.argv[1], sys.argv[2]), {}, []
walk(json.load(sys.stdin), '', rows, seen, faults)
for path in rows:
    # Keys below a null or an empty list cannot exist.
    if path not in seen and seen.get(parent(path), not parent(path)):
        faults.append('%s is documented, but missing' % path)
for fault in faults:
    print('check_json: ' + fault)
sys.exit(bool(faults) or not rows)
