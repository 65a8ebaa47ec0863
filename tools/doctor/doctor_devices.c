// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* doctor: kernel modules and device files. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

/* ---- modules
 * -------------------------------------------------------------------------------------------------
 */

struct functions {
	unsigned int n, n_rdma; /* for use by this host, as far as can be seen */
	unsigned int n_given; /* handed to virtual machines or user space drivers */
	char first[64]; /* first one without an RDMA device */
	bool unbound; /* it has no driver */
};

/* Is the function used by a virtual machine (vfio) or a user space driver? */
static bool is_given_away(struct doctor *d, const char *name)
{
	static const char *const drivers[] = {"vfio-pci", "mlx5_vfio_pci", "pci-stub", "uio_pci_generic", "igb_uio"};
	char driver[64];
	size_t i;

	if (!files_link(d, driver, sizeof(driver), "/sys/bus/pci/devices/%s/driver", name))
		return files_exist(d, "/sys/bus/pci/devices/%s/physfn", name); /* a VF for a virtual machine */
	for (i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		if (!strcmp(driver, drivers[i]))
			return true;
	return false;
}

struct bond {
	char name[64];
	bool has_rdma; /* one of the functions of its netdevs has an RDMA device */
	const char *function; /* function whose netdevs are examined */
};

static void visit_netdev(struct doctor *d, const char *name, void *arg)
{
	struct bond *bond = arg;
	char master[64];

	if (!files_exist(d, "/sys/bus/pci/devices/%s/net/%s/bonding_slave", bond->function, name) ||
	    !files_link(d, master, sizeof(master), "/sys/bus/pci/devices/%s/net/%s/master", bond->function, name))
		return;
	if (!bond->name[0])
		snprintf(bond->name, sizeof(bond->name), "%s", master);
	else if (!strcmp(bond->name, master) && files_exist(d, "/sys/bus/pci/devices/%s/infiniband", bond->function))
		bond->has_rdma = true;
}

static void look_at_netdevs(struct doctor *d, const char *function, struct bond *bond)
{
	char path[PATH_MAX];

	bond->function = function;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/net", function);
	files_each(d, path, visit_netdev, bond);
}

static void visit_partner(struct doctor *d, const char *name, void *arg)
{
	look_at_netdevs(d, name, arg);
}

/* A bond of two functions of one card (LAG) has one RDMA device, mlx5_bond_0, on the first function. */
static bool is_second_of_lag(struct doctor *d, const char *name)
{
	struct bond bond = {.name = ""};

	look_at_netdevs(d, name, &bond);
	if (bond.name[0])
		files_each(d, "/sys/bus/pci/devices", visit_partner, &bond);
	return bond.has_rdma;
}

static bool starts(struct doctor *d, const char *path, const char *name, const char *with)
{
	char *text;
	bool is;

	if (files_read(d, &text, "/sys/bus/pci/devices/%s/%s", name, path))
		return false;
	is = !strncmp(text, with, strlen(with));
	free(text);
	return is;
}

/* Is it a function of a ConnectX: Mellanox, Ethernet or InfiniBand controller? */
static void visit_pci(struct doctor *d, const char *name, void *arg)
{
	struct functions *functions = arg;

	if (!starts(d, "vendor", name, "0x15b3") ||
	    (!starts(d, "class", name, "0x0200") && !starts(d, "class", name, "0x0207")))
		return;
	if (files_exist(d, "/sys/bus/pci/devices/%s/infiniband", name)) {
		functions->n++;
		functions->n_rdma++;
		return;
	}
	if (is_given_away(d, name)) {
		functions->n_given++;
		return;
	}
	if (is_second_of_lag(d, name))
		return;
	functions->n++;
	if (!functions->first[0]) {
		snprintf(functions->first, sizeof(functions->first), "%s", name);
		functions->unbound = !files_exist(d, "/sys/bus/pci/devices/%s/driver", name);
	}
}

static void check_modules(struct doctor *d)
{
	struct functions functions = {0};

	files_each(d, "/sys/bus/pci/devices", visit_pci, &functions);
	if (!functions.n_rdma && functions.n)
		doctor_find(
			d, DOCTOR_ACTION, words("PCI %s", functions.first),
			words("it is a ConnectX, but no RDMA device has come of it"),
			words("%s", functions.unbound
					    ? "load its driver: modprobe mlx5_core, then mlx5_ib"
					    : "load its RDMA driver: modprobe mlx5_ib; if that is "
					      "loaded, see whether RoCE is "
					      "switched off: devlink dev param show, enable_roce"));
	else if (functions.n_rdma < functions.n)
		doctor_find(d, DOCTOR_NOTE, words("PCI %s", functions.first),
			    words("%u of %u ConnectX functions have no RDMA device",
				  functions.n - functions.n_rdma, functions.n),
			    words("if it is to be used: bind it to mlx5_core, and see devlink dev "
				  "param show, enable_roce"));
	else if (functions.n_given && d->host_error)
		doctor_find(d, DOCTOR_NOTE, words("RDMA devices"),
			    words("there are none; all %u ConnectX functions are kept for virtual machines or drivers in user space",
				  functions.n_given),
			    words("nothing, if programs of this host are to use none; else bind one to mlx5_core"));
	else if (d->host_error == -ENOENT || d->host_error == -ENODEV)
		doctor_find(
			d, DOCTOR_ACTION, words("RDMA devices"), words("%s", d->host_why),
			words("%s", d->container
					    ? "give the container the devices: " MESHVERBS_DOC_DIR
					      "/containers.md"
					    : "load the module of your NIC and look at dmesg"));
	if (files_exist(d, "/sys/class/infiniband") &&
	    !files_exist(d, "/sys/class/infiniband_verbs"))
		doctor_find(d, DOCTOR_ACTION, words("ib_uverbs"),
			    words("the module is not loaded, so no program can open a device"),
			    words("modprobe ib_uverbs, and write ib_uverbs into a file in "
				  "/etc/modules-load.d to keep it"));
}

/* ---- device files
 * -------------------------------------------------------------------------------------------- */

struct uverbs {
	const char *device;
	char name[64];
};

static void visit_uverbs(struct doctor *d, const char *name, void *arg)
{
	struct uverbs *uverbs = arg;
	char *device;

	if (uverbs->name[0] || files_read(d, &device, "/sys/class/infiniband_verbs/%s/ibdev", name))
		return;
	device[strcspn(device, "\n")] = '\0';
	if (!strcmp(device, uverbs->device))
		snprintf(uverbs->name, sizeof(uverbs->name), "%s", name);
	free(device);
}

static void check_file(struct doctor *d, const char *device, const char *name)
{
	int rc = files_access(d, R_OK | W_OK, "/dev/infiniband/%s", name);

	if (!rc)
		return;
	if (rc == -ENOENT)
		doctor_find(d, DOCTOR_ACTION, words("/dev/infiniband/%s", name),
			    words("it is missing, so %s cannot be opened", device),
			    d->container ? words("give the container the file: --device "
						 "/dev/infiniband/%s, or a device plugin or CDI "
						 "spec in Kubernetes (" MESHVERBS_DOC_DIR
						 "/containers.md)",
						 name)
					 : words("it is made when ib_uverbs is loaded: modprobe "
						 "ib_uverbs; then udevadm trigger"));
	else
		doctor_find(d, DOCTOR_ACTION, words("/dev/infiniband/%s", name),
			    words("it cannot be opened by this user: %s", strerror(-rc)),
			    words("rdma-core's udev rules give it mode 0666: install rdma-core, "
				  "udevadm trigger; in a container "
				  "let the device cgroup have it"));
}

static void check_uverbs(struct doctor *d)
{
	size_t i;

	if (d->host_error) {
		doctor_skip(d, "there are no RDMA devices");
		return;
	}
	for (i = 0; i < d->host.topo.n_devices; i++) {
		struct uverbs uverbs = {.device = d->host.topo.devices[i].name};

		if (!doctor_serves(d, uverbs.device))
			continue;
		files_each(d, "/sys/class/infiniband_verbs", visit_uverbs, &uverbs);
		if (uverbs.name[0])
			check_file(d, uverbs.device, uverbs.name);
	}
}

static void check_rdma_cm(struct doctor *d)
{
	if (d->host_error) {
		doctor_skip(d, "there are no RDMA devices");
		return;
	}
	if (files_access(d, F_OK, "/dev/infiniband/rdma_cm") == -ENOENT)
		doctor_find(
			d, DOCTOR_NOTE, words("/dev/infiniband/rdma_cm"), words("it is missing"),
			words("%s", d->container
					    ? "if programs here use librdmacm, give the container "
					      "that file"
					    : "if programs here use librdmacm: modprobe rdma_ucm"));
}

const struct doctor_check doctor_device_checks[] = {
	{"modules", "kernel modules, and RDMA devices of the NICs",
	 "Programs see no RDMA device, and many then use TCP without a word.", check_modules},
	{"uverbs", "device files of the RDMA devices",
	 "libibverbs does not list a device whose file it cannot find.", check_uverbs},
	{"rdma-cm", "the device file of librdmacm",
	 "Programs that connect through librdmacm (rping, perftest -R) cannot start.",
	 check_rdma_cm},
	{0},
};
