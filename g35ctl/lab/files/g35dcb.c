// SPDX-License-Identifier: GPL-2.0
/*
 * g35dcb: IEEE 802.1Qaz DCB netlink operations for lab network devices that have none.
 *
 * It stands for the DCB half of a RoCE NIC driver, so that the real dcb(8) and everything that speaks dcbnl can be
 * exercised in a virtual machine. It keeps state per device and refuses what such drivers refuse; it does not shape,
 * pause or prioritise anything.
 *
 *   netdevs=eth1,eth2  devices to serve, attached when they appear under that name (up to 8)
 *   lld_managed=0      1: start under firmware control, as NICs with a DCBX agent do: every change is refused until the
 *                      host has taken over (dcb dcbx set dev eth1 host ieee)
 *   flap_ms=200        how long the carrier is lost when the set of PFC priorities changes, as on hardware that has to
 *                      retrain the link; 0 only counts
 *   link_flaps         read only, one counter per device in the order of netdevs
 *   changes            read only, accepted set requests per device, whether or not they changed anything
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/dcbnl.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/workqueue.h>
#include <net/dcbnl.h>
#include <net/net_namespace.h>

#define G35_MAX_NETDEVS 8
#define G35_BUFFER_BYTES (256 * 1024)

static char *netdevs[G35_MAX_NETDEVS];
static unsigned int netdev_count;
module_param_array(netdevs, charp, &netdev_count, 0444);
MODULE_PARM_DESC(netdevs, "names of the devices to serve");

static unsigned int link_flaps[G35_MAX_NETDEVS];
module_param_array(link_flaps, uint, &netdev_count, 0444);
MODULE_PARM_DESC(link_flaps, "carrier losses caused by PFC changes, per device");

static unsigned int changes[G35_MAX_NETDEVS];
module_param_array(changes, uint, &netdev_count, 0444);
MODULE_PARM_DESC(changes, "set requests accepted, per device");

static bool lld_managed;
module_param(lld_managed, bool, 0444);
MODULE_PARM_DESC(lld_managed, "start under firmware control");

static unsigned int flap_ms = 200;
module_param(flap_ms, uint, 0644);
MODULE_PARM_DESC(flap_ms, "carrier loss on a PFC change in milliseconds, 0 to count only");

struct g35_port {
	struct net_device *dev;
	struct delayed_work carrier_back;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct dcbnl_buffer buffer;
	u8 dcbx;
};

/* Written under RTNL only, as dcbnl and the notifier both hold it. */
static struct g35_port ports[G35_MAX_NETDEVS];

static struct g35_port *port_of(const struct net_device *dev)
{
	unsigned int i;

	for (i = 0; i < netdev_count; i++)
		if (ports[i].dev == dev)
			return &ports[i];
	return NULL;
}

static bool host_managed(const struct g35_port *port)
{
	return (port->dcbx & DCB_CAP_DCBX_HOST) && (port->dcbx & DCB_CAP_DCBX_VER_IEEE);
}

static void accepted(const struct g35_port *port)
{
	changes[port - ports]++;
}

static int g35_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = port_of(dev)->ets;
	return 0;
}

static int g35_setets(struct net_device *dev, struct ieee_ets *ets)
{
	struct g35_port *port = port_of(dev);
	bool weighted = false;
	unsigned int sum = 0;
	int i;

	if (!host_managed(port))
		return -EPERM;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS) {
			netdev_err(dev, "ETS: priority %d mapped to traffic class %u\n", i, ets->prio_tc[i]);
			return -EINVAL;
		}
		switch (ets->tc_tsa[i]) {
		case IEEE_8021QAZ_TSA_STRICT:
			break;
		case IEEE_8021QAZ_TSA_ETS:
			if (!ets->tc_tx_bw[i]) {
				netdev_err(dev, "ETS: traffic class %d has no bandwidth\n", i);
				return -EINVAL;
			}
			weighted = true;
			sum += ets->tc_tx_bw[i];
			break;
		default:
			netdev_err(dev, "ETS: selection algorithm %u not supported\n", ets->tc_tsa[i]);
			return -EOPNOTSUPP;
		}
	}
	if (weighted && sum != 100) {
		netdev_err(dev, "ETS: bandwidths add up to %u, not 100\n", sum);
		return -EINVAL;
	}
	port->ets = *ets;
	port->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	accepted(port);
	return 0;
}

static int g35_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = port_of(dev)->pfc;
	return 0;
}

static void g35_carrier_back(struct work_struct *work)
{
	struct g35_port *port = container_of(to_delayed_work(work), struct g35_port, carrier_back);

	netif_carrier_on(port->dev);
}

static int g35_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct g35_port *port = port_of(dev);
	bool retrain = pfc->pfc_en != port->pfc.pfc_en;

	if (!host_managed(port))
		return -EPERM;
	port->pfc.pfc_en = pfc->pfc_en;
	port->pfc.delay = pfc->delay;
	port->pfc.mbc = pfc->mbc;
	accepted(port);
	if (!retrain)
		return 0;
	link_flaps[port - ports]++;
	if (flap_ms && netif_carrier_ok(dev)) {
		netif_carrier_off(dev);
		schedule_delayed_work(&port->carrier_back, msecs_to_jiffies(flap_ms));
	}
	return 0;
}

static int g35_setapp(struct net_device *dev, struct dcb_app *app)
{
	struct g35_port *port = port_of(dev);
	int err;

	if (!host_managed(port))
		return -EPERM;
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP || app->protocol >= 64 ||
	    app->priority >= IEEE_8021QAZ_MAX_TCS)
		return -EINVAL;
	err = dcb_ieee_setapp(dev, app);
	if (!err)
		accepted(port);
	return err;
}

static int g35_delapp(struct net_device *dev, struct dcb_app *app)
{
	struct g35_port *port = port_of(dev);
	int err;

	if (!host_managed(port))
		return -EPERM;
	err = dcb_ieee_delapp(dev, app);
	if (!err)
		accepted(port);
	return err;
}

static u8 g35_getdcbx(struct net_device *dev)
{
	return port_of(dev)->dcbx;
}

/* dcbnl's convention: 0 is success, anything else a refusal. */
static u8 g35_setdcbx(struct net_device *dev, u8 mode)
{
	struct g35_port *port = port_of(dev);
	bool host = mode & DCB_CAP_DCBX_HOST;
	bool firmware = mode & DCB_CAP_DCBX_LLD_MANAGED;

	if ((mode & DCB_CAP_DCBX_VER_CEE) || !(mode & DCB_CAP_DCBX_VER_IEEE) || host == firmware)
		return 1;
	port->dcbx = mode;
	accepted(port);
	return 0;
}

static int g35_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = port_of(dev)->buffer;
	return 0;
}

static int g35_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct g35_port *port = port_of(dev);
	u64 sum = 0;
	int i;

	if (!host_managed(port))
		return -EPERM;
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		sum += buffer->buffer_size[i];
	if (sum > G35_BUFFER_BYTES) {
		netdev_err(dev, "buffer: %llu bytes asked for, %u there\n", sum, G35_BUFFER_BYTES);
		return -EINVAL;
	}
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		if (buffer->prio2buffer[i] >= DCBX_MAX_BUFFERS)
			return -EINVAL;
	port->buffer = *buffer;
	port->buffer.total_size = G35_BUFFER_BYTES;
	accepted(port);
	return 0;
}

static const struct dcbnl_rtnl_ops g35_dcbnl_ops = {
	.ieee_getets = g35_getets,
	.ieee_setets = g35_setets,
	.ieee_getpfc = g35_getpfc,
	.ieee_setpfc = g35_setpfc,
	.ieee_setapp = g35_setapp,
	.ieee_delapp = g35_delapp,
	.getdcbx = g35_getdcbx,
	.setdcbx = g35_setdcbx,
	.dcbnl_getbuffer = g35_getbuffer,
	.dcbnl_setbuffer = g35_setbuffer,
};

static void attach(struct g35_port *port, struct net_device *dev)
{
	int i;

	if (port->dev)
		return;
	if (dev->dcbnl_ops) {
		netdev_warn(dev, "has DCB of its own, left alone\n");
		return;
	}
	memset(&port->ets, 0, sizeof(port->ets));
	memset(&port->pfc, 0, sizeof(port->pfc));
	memset(&port->buffer, 0, sizeof(port->buffer));
	port->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	port->pfc.pfc_cap = IEEE_8021QAZ_MAX_TCS;
	port->buffer.total_size = G35_BUFFER_BYTES;
	port->buffer.buffer_size[0] = G35_BUFFER_BYTES / 2;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		port->ets.prio_tc[i] = i;
	port->dcbx = DCB_CAP_DCBX_VER_IEEE | (lld_managed ? DCB_CAP_DCBX_LLD_MANAGED : DCB_CAP_DCBX_HOST);
	INIT_DELAYED_WORK(&port->carrier_back, g35_carrier_back);
	port->dev = dev;
	dev->dcbnl_ops = &g35_dcbnl_ops;
	netdev_info(dev, "DCB operations attached\n");
}

static void detach(struct g35_port *port)
{
	if (cancel_delayed_work_sync(&port->carrier_back))
		netif_carrier_on(port->dev);
	port->dev->dcbnl_ops = NULL;
	port->dev = NULL;
}

static int g35_netdev_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct g35_port *port;
	unsigned int i;

	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_CHANGENAME:
		if (!net_eq(dev_net(dev), &init_net) || port_of(dev))
			break;
		for (i = 0; i < netdev_count; i++)
			if (!strcmp(dev->name, netdevs[i]))
				attach(&ports[i], dev);
		break;
	case NETDEV_UNREGISTER:
		port = port_of(dev);
		if (port)
			detach(port);
		break;
	}
	return NOTIFY_DONE;
}

/* Registering replays NETDEV_REGISTER for devices that exist, unregistering NETDEV_UNREGISTER: no list to walk here. */
static struct notifier_block g35_notifier = { .notifier_call = g35_netdev_event };

static int __init g35dcb_init(void)
{
	if (!netdev_count) {
		pr_err("no device named: load with netdevs=eth1,eth2\n");
		return -EINVAL;
	}
	return register_netdevice_notifier(&g35_notifier);
}

static void __exit g35dcb_exit(void)
{
	unregister_netdevice_notifier(&g35_notifier);
}

module_init(g35dcb_init);
module_exit(g35dcb_exit);
MODULE_DESCRIPTION("IEEE DCB netlink operations for lab network devices");
MODULE_LICENSE("GPL");
