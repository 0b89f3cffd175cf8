/* evidence_json.h - where the time of a run goes, as JSON: "attribution" in docs/json.md. */
#ifndef EVIDENCE_JSON_H
#define EVIDENCE_JSON_H

#include "diagnose/evidence.h"
#include "diagnose/json_writer.h"

void evidence_attribution_json(json_writer *w, const evidence *e);

#endif
