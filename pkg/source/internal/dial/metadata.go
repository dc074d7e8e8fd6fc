package dial

import (
	"net/netip"
	"slices"
)

// MetadataServices are the addresses of cloud services that give a machine information
// about itself, including credentials. Neither repositories nor artifacts are fetched
// from there, and the NetworkPolicy of deploy/controller.yaml blocks them. The program
// rejects every link-local address; a NetworkPolicy cannot do so, because a DNS cache of
// the node can have such an address, so it lists each service.
func MetadataServices() []netip.Addr { return slices.Clone(metadataServices) }

var metadataServices = []netip.Addr{
	// AWS, Azure, Google, OpenStack and others
	// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("fd00:ec2::254"),
	// AWS ECS: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
	netip.MustParseAddr("169.254.170.2"),
	// AWS EKS Pod Identity: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html
	netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("fd00:ec2::23"),
	// Google Cloud, machines with only IPv6
	// https://cloud.google.com/compute/docs/metadata/querying-metadata
	netip.MustParseAddr("fd20:ce::254"),
	// Azure: https://learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
	netip.MustParseAddr("168.63.129.16"),
	// Oracle: https://docs.oracle.com/en/cloud/iaas/compute-iaas-cloud/stcsg/retrieving-instance-metadata.html
	// and the instance principals of https://github.com/oracle/oci-python-sdk
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"),
	// Alibaba: cloudinit/sources/DataSourceAliYun.py of https://github.com/canonical/cloud-init
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("fd00:100::100:200"),
	// Scaleway: https://docs.cloud-init.io/en/latest/reference/datasources/scaleway.html
	netip.MustParseAddr("169.254.42.42"),
	netip.MustParseAddr("fd00:42::42"),
	// Akamai: https://docs.cloud-init.io/en/latest/reference/datasources/akamai.html
	netip.MustParseAddr("fd00:a9fe:a9fe::1"),
}

// IPv6 networks whose addresses contain an IPv4 address.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052, section 2.1
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291, section 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	thisHost   = netip.MustParsePrefix("0.0.0.0/8")       // "this network": Linux connects 0.0.0.0 to itself
)

// embeddedIPv4 returns the IPv4 addresses that an IPv6 address can contain.
func embeddedIPv4(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	at := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case nat64.Contains(addr), compatible.Contains(addr), translated.Contains(addr):
		return []netip.Addr{at(12, 13, 14, 15)}
	case sixToFour.Contains(addr):
		return []netip.Addr{at(2, 3, 4, 5)}
	case localNAT64.Contains(addr):
		// The prefix can have 96, 64, 56 or 48 bits, with zeros in byte 8 and after the
		// address: RFC 6052, section 2.2. If all these bytes are zero, they are the rest
		// of a shorter prefix.
		zero := func(from int) bool {
			return b[8] == 0 && !slices.ContainsFunc(b[from:], func(x byte) bool { return x != 0 })
		}
		out := []netip.Addr{at(12, 13, 14, 15)}
		if zero(13) {
			out = append(out, at(9, 10, 11, 12))
		}
		if zero(12) {
			out = append(out, at(7, 9, 10, 11))
		}
		if zero(11) {
			out = append(out, at(6, 7, 9, 10))
		}
		if some := slices.DeleteFunc(slices.Clone(out), netip.Addr.IsUnspecified); len(some) > 0 {
			return some
		}
		return out
	}
	return nil
}
