/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the two halves of the responder share: rc_resp.c executes requests, rc_answer.c answers. */
#ifndef SIM_RC_ANSWER_H
#define SIM_RC_ANSWER_H

#include "hca.h"

void rc_answer_aeth(struct qp *qp, uint8_t syndrome, uint32_t psn);
struct rd_response *rc_answer_add(struct qp *qp);
bool rc_answer_read(struct qp *qp, const struct wire_packet *p);
void rc_answer_cut(struct qp *qp, uint32_t psn);

#endif
