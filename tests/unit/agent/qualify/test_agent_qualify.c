/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Qualification by the agent: whose turn it is, who uses a device, and the processes that find out. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "qualify.h"

#define MINUTE (60 * MD_S)

static const struct mv_qualified_key key = {.board_id = "b", .firmware = "1", .kernel = "6", .libmlx5 = "ab"};

/* ---- plan ------------------------------------------------------------------------------------ */

static struct mv_qualified verdict;

static void checked(struct md_qualify_device *device, enum mv_trial_verdict of_trial)
{
	verdict = (struct mv_qualified){.key = key, .n_trials = 1};
	verdict.trials[0] = (struct mv_qualified_trial){.name = "flush", .verdict = of_trial, .assumption = "all are flushed", .reason = "one was not"};
	verdict.verdict = mv_qualified_decide(verdict.trials, 1);
	md_qualify_decided(device, 0, &verdict, "");
}

static void test_decided_once(void **state)
{
	struct md_qualify_device device = {0};

	(void)state;
	assert_false(md_qualify_is_due(&device, MINUTE)); /* nothing is known of it */
	md_qualify_found(&device, &key);
	assert_true(md_qualify_is_due(&device, MINUTE));
	md_qualify_ended(&device, MD_QUALIFY_DECIDED, "", MINUTE);
	checked(&device, MV_TRIAL_PASS);
	assert_int_equal(device.state, MD_QUALIFY_QUALIFIED);
	assert_false(md_qualify_is_due(&device, UINT64_MAX - 1));
	checked(&device, MV_TRIAL_FAIL);
	assert_int_equal(device.state, MD_QUALIFY_FAILED);
	assert_string_equal(device.trial, "flush");
	assert_string_equal(device.assumption, "all are flushed");
	assert_string_equal(device.reason, "one was not");
	assert_false(md_qualify_is_due(&device, UINT64_MAX - 1));
	md_qualify_decided(&device, -EPERM, NULL, "x: others may write it");
	assert_int_equal(device.state, MD_QUALIFY_REFUSED);
	assert_string_equal(device.why, "x: others may write it");
	assert_false(md_qualify_is_due(&device, UINT64_MAX - 1));
}

/* By itself the agent tries out nothing that no program would use. */
static void test_not_where_nothing_moves(void **state)
{
	struct mv_config config;

	(void)state;
	mv_config_defaults(&config);
	assert_null(md_qualify_why_not(&config));
	config.moves = false;
	assert_string_equal(md_qualify_why_not(&config), "moves = off");
	config.mode = MV_MODE_OBSERVE;
	assert_string_equal(md_qualify_why_not(&config), "mode is not on");
	config.mode = MV_MODE_OFF;
	assert_string_equal(md_qualify_why_not(&config), "mode is not on");
}

static void test_unsure_again(void **state)
{
	struct md_qualify_device device = {0};
	struct mv_qualified_key newer = key;

	(void)state;
	md_qualify_found(&device, &key);
	md_qualify_ended(&device, MD_QUALIFY_DECIDED, "", MINUTE);
	checked(&device, MV_TRIAL_UNSURE);
	assert_int_equal(device.state, MD_QUALIFY_UNSURE);
	assert_string_equal(device.trial, "flush");
	assert_false(md_qualify_is_due(&device, 11 * MINUTE - 1));
	assert_true(md_qualify_is_due(&device, 11 * MINUTE));
	/* What cannot be had counts as well. */
	md_qualify_ended(&device, MD_QUALIFY_CANNOT, "no memory", 11 * MINUTE);
	assert_string_equal(device.why, "no memory");
	assert_false(md_qualify_is_due(&device, 31 * MINUTE - 1));
	assert_true(md_qualify_is_due(&device, 31 * MINUTE));
	md_qualify_ended(&device, MD_QUALIFY_DECIDED, "", 31 * MINUTE);
	assert_false(md_qualify_is_due(&device, UINT64_MAX - 1));
	/* Another firmware, kernel or libmlx5 is another matter. */
	md_qualify_found(&device, &key);
	assert_false(md_qualify_is_due(&device, 32 * MINUTE));
	strcpy(newer.libmlx5, "ac");
	md_qualify_found(&device, &newer);
	assert_true(md_qualify_is_due(&device, 32 * MINUTE));
	md_qualify_decided(&device, -ENOENT, NULL, "");
	assert_int_equal(device.state, MD_QUALIFY_NONE);
	assert_true(md_qualify_is_due(&device, 32 * MINUTE));
}

static void test_interrupted(void **state)
{
	struct md_qualify_device device = {0};

	(void)state;
	md_qualify_found(&device, &key);
	for (unsigned int i = 1; i < 10; i++) {
		md_qualify_ended(&device, MD_QUALIFY_INTERRUPTED, "", i * MINUTE);
		assert_false(md_qualify_is_due(&device, (i + 1) * MINUTE - 1));
		assert_true(md_qualify_is_due(&device, (i + 1) * MINUTE));
	}
}

static void test_still(void **state)
{
	struct md_qualify_device device = {0};

	(void)state;
	md_qualify_counted(&device, 1000000);
	assert_false(device.still); /* one look tells nothing */
	md_qualify_counted(&device, 1000000);
	assert_true(device.still);
	md_qualify_counted(&device, 1000000 + MD_QUALIFY_WORDS_MAX + 1);
	assert_false(device.still);
	md_qualify_counted(&device, 1000000 + MD_QUALIFY_WORDS_MAX + 2);
	assert_true(device.still);
	md_qualify_counted(&device, 5); /* the NIC was reset */
	assert_false(device.still);
	md_qualify_counted(&device, 0);
	md_qualify_counted(&device, 0); /* nothing was ever sent */
	assert_true(device.still);
}

/* ---- who uses a device ----------------------------------------------------------------------- */

static char answer[4096];
static size_t answer_len;

static size_t begin_attr(uint16_t type)
{
	struct nlattr attr = {.nla_type = type};

	memcpy(answer + answer_len, &attr, sizeof(attr));
	answer_len += sizeof(attr);
	return answer_len - sizeof(attr);
}

static void end_attr(size_t at)
{
	uint16_t len = (uint16_t)(answer_len - at);

	memcpy(answer + at, &len, sizeof(len));
	answer_len = NLMSG_ALIGN(answer_len);
}

static void put_typed_qp(uint8_t type, const char *kernel_name, uint32_t pid)
{
	size_t entry = begin_attr(RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED), at;

	at = begin_attr(RDMA_NLDEV_ATTR_RES_TYPE);
	answer[answer_len++] = (char)type;
	end_attr(at);
	at = begin_attr(kernel_name ? RDMA_NLDEV_ATTR_RES_KERN_NAME : RDMA_NLDEV_ATTR_RES_PID);
	if (kernel_name) {
		strcpy(answer + answer_len, kernel_name);
		answer_len += strlen(kernel_name) + 1;
	} else {
		memcpy(answer + answer_len, &pid, sizeof(pid));
		answer_len += sizeof(pid);
	}
	end_attr(at);
	end_attr(entry);
}

static void put_qp(const char *kernel_name, uint32_t pid)
{
	put_typed_qp(IBV_QPT_UD, kernel_name, pid);
}

static void put_message(uint16_t type, void (*fill)(void))
{
	struct nlmsghdr head = {.nlmsg_type = type};
	size_t start = answer_len, table;

	answer_len += sizeof(head);
	if (fill) {
		table = begin_attr(RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED);
		fill();
		end_attr(table);
	}
	head.nlmsg_len = (uint32_t)(answer_len - start);
	memcpy(answer + start, &head, sizeof(head));
}

static void kernel_only(void)
{
	put_qp("ib_core", 0);
	put_qp("rdma_cm", 0);
}

static void two_of_a_program(void)
{
	put_qp("ib_core", 0);
	put_qp(NULL, 4711);
	put_qp(NULL, 4712);
}

static void test_users(void **state)
{
	const uint16_t qps = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET);
	pid_t threads[4];
	bool end;

	(void)state;
	answer_len = 0;
	put_message(qps, kernel_only);
	assert_int_equal(md_resqp_parse_users(answer, answer_len, threads, 4, &end), 0);
	assert_false(end);
	put_message(qps, two_of_a_program);
	put_message(NLMSG_DONE, NULL);
	assert_int_equal(md_resqp_parse_users(answer, answer_len, threads, 4, &end), 2);
	assert_int_equal(threads[0], 4711);
	assert_int_equal(threads[1], 4712);
	assert_true(end);
	assert_int_equal(md_resqp_parse_users(answer, answer_len, threads, 1, &end), 1);
	/* Cut anywhere, nothing is read behind the end. */
	for (size_t len = 0; len < answer_len; len++)
		assert_true(md_resqp_parse_users(answer, len, threads, 4, &end) <= 2);
}

static void storage_of_the_kernel(void)
{
	put_typed_qp(1, "ib_core", 0); /* QP1 */
	put_qp("ib_ipoib", 0);
	put_typed_qp(IBV_QPT_RC, "nvme_rdma", 0);
}

static void test_kernel_users(void **state)
{
	pid_t threads[4] = {1, 1, 1, 1};
	bool end;

	(void)state;
	answer_len = 0;
	put_message(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_QP_GET), storage_of_the_kernel);
	put_message(NLMSG_DONE, NULL);
	assert_int_equal(md_resqp_parse_users(answer, answer_len, threads, 4, &end), 1);
	assert_int_equal(threads[0], 0); /* of no session */
	assert_true(end);
	for (size_t len = 0; len < answer_len; len++)
		assert_true(md_resqp_parse_users(answer, len, threads, 4, &end) <= 1);
}

/* ---- processes ------------------------------------------------------------------------------- */

static sd_event *event;
static struct {
	unsigned int n;
	int status;
	char text[256];
} done;

static void on_done(struct md_qualify_run *run, const char *text, size_t len, int status)
{
	(void)run;
	done.n++;
	done.status = status;
	snprintf(done.text, sizeof(done.text), "%.*s", (int)len, text);
}

static struct md_qualify_run run;

static int setup_run(void **state)
{
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	assert_true(sd_event_new(&event) >= 0);
	memset(&done, 0, sizeof(done));
	run = (struct md_qualify_run){.event = event, .done = on_done, .fd = -1};
	return 0;
}

static int teardown_run(void **state)
{
	(void)state;
	md_qualify_run_stop(&run);
	sd_event_unref(event);
	return 0;
}

static void until_done(void)
{
	for (unsigned int i = 0; i < 600 && !done.n; i++)
		assert_true(sd_event_run(event, 100000) >= 0);
	assert_int_equal(done.n, 1);
	assert_false(md_qualify_runs(&run));
}

#define SHELL(text) (const char *const[]){"/bin/sh", "-c", text, NULL}

static void test_run(void **state)
{
	(void)state;
	assert_int_equal(md_qualify_run_child(&run, SHELL("echo one; echo two; exit 3"), 100 * MD_S), 0);
	assert_true(md_qualify_runs(&run));
	until_done();
	assert_int_equal(done.status, 3);
	assert_string_equal(done.text, "one\ntwo\n");
	/* And another. */
	memset(&done, 0, sizeof(done));
	assert_int_equal(md_qualify_run_child(&run, SHELL("kill -9 $$"), 100 * MD_S), 0);
	until_done();
	assert_int_equal(done.status, -1);
}

static void test_run_fails(void **state)
{
	const char *const nothing[] = {"/nonexistent", NULL};

	(void)state;
	assert_int_equal(md_qualify_run_child(&run, nothing, MD_S), -ENOENT);
	assert_false(md_qualify_runs(&run));
	assert_int_equal(md_qualify_run_service(&run, "/nonexistent", "mlx5_0", MD_S), -ENOENT);
	assert_false(md_qualify_runs(&run));
	assert_int_equal(done.n, 0);
}

/* With all that it has started, which has the pipe, too. */
static void test_run_too_long(void **state)
{
	(void)state;
	assert_int_equal(md_qualify_run_child(&run, SHELL("echo started; sleep 3600 & sleep 3600"), MD_S / 10), 0);
	until_done();
	assert_int_equal(done.status, -1);
	assert_string_equal(done.text, "");
}

static void test_run_ended(void **state)
{
	(void)state;
	assert_int_equal(md_qualify_run_child(&run, SHELL("sleep 3600"), 3600 * MD_S), 0);
	md_qualify_run_end(&run);
	until_done();
	assert_true(run.ended);
	assert_int_equal(done.status, -1);
}

static void test_run_too_much(void **state)
{
	(void)state;
	assert_int_equal(md_qualify_run_child(&run, SHELL("exec yes"), 3600 * MD_S), 0);
	until_done();
	assert_string_equal(done.text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decided_once),
		cmocka_unit_test(test_not_where_nothing_moves),
		cmocka_unit_test(test_unsure_again),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_still),
		cmocka_unit_test(test_users),
		cmocka_unit_test(test_kernel_users),
		cmocka_unit_test_setup_teardown(test_run, setup_run, teardown_run),
		cmocka_unit_test_setup_teardown(test_run_fails, setup_run, teardown_run),
		cmocka_unit_test_setup_teardown(test_run_too_long, setup_run, teardown_run),
		cmocka_unit_test_setup_teardown(test_run_ended, setup_run, teardown_run),
		cmocka_unit_test_setup_teardown(test_run_too_much, setup_run, teardown_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
