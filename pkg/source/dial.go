package source

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialer connects to hosts a repository may be on. Addresses are judged after the
// name was resolved and at every connection, so neither DNS nor a redirect leads
// to this machine or to a cloud's metadata service. Private networks are allowed:
// that is where Git servers are.
func (m *Mirrors) dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return &addressError{reason: "it is not an IP address"}
			}
			return checkAddress(to.Addr(), m.AllowedCIDRs)
		},
	}
}

// addressError: a host resolved to an address that is not connected to.
type addressError struct {
	addr   netip.Addr
	reason string
}

func (e *addressError) Error() string {
	return "refusing to connect to " + e.addr.String() + ": " + e.reason
}

// The metadata service of AWS has one address that is not link-local.
var metadataIPv6 = netip.MustParseAddr("fd00:ec2::254")

// Addresses that carry an IPv4 address within.
var (
	nat64    = netip.MustParsePrefix("64:ff9b::/96")
	thisHost = netip.MustParsePrefix("0.0.0.0/8") // "this network": Linux connects 0.0.0.0 to itself
)

func checkAddress(addr netip.Addr, allowed []netip.Prefix) error {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, prefix := range allowed {
		if prefix.Contains(addr) {
			return nil
		}
	}
	switch {
	case addr.IsLoopback():
		return &addressError{addr, "loopback"}
	case addr.IsUnspecified() || thisHost.Contains(addr):
		return &addressError{addr, "unspecified"}
	case addr.IsLinkLocalUnicast():
		return &addressError{addr, "link-local"}
	case addr.IsMulticast():
		return &addressError{addr, "multicast"}
	case addr == metadataIPv6:
		return &addressError{addr, "a cloud's metadata service"}
	}
	return nil
}

// refusedAddress finds an addressError below what net/http made of it.
func refusedAddress(err error) (*addressError, bool) {
	var refused *addressError
	return refused, errors.As(err, &refused)
}
