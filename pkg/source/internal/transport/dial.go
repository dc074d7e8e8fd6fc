package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// dialer connects to hosts a repository may be on. Addresses are judged after the
// name was resolved and at every connection, so neither DNS nor a redirect leads
// to this machine or to a cloud's metadata service. Private networks are allowed:
// that is where Git servers are.
//
// Behind a proxy the name is resolved there, where we cannot judge what comes of
// it: the proxy's own address is judged as any other, a host that is written as an
// address too, and names that mean the machine they are resolved on are refused.
// What else a proxy may reach is for the proxy to say.
type dialer struct {
	direct  net.Dialer
	allowed []netip.Prefix
	proxy   *Proxy // nil for none
}

func newDialer(timeout time.Duration, allowed []netip.Prefix, proxy *Proxy) *dialer {
	return &dialer{
		direct: net.Dialer{
			Timeout: timeout,
			ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
				to, err := netip.ParseAddrPort(address)
				if err != nil {
					return &addressError{host: "it", reason: "it is not an IP address"}
				}
				return checkAddress(to.Addr(), allowed)
			},
		},
		allowed: allowed,
		proxy:   proxy,
	}
}

// DialContext connects to a host, through the proxy if there is one.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.proxy == nil {
		return d.direct.DialContext(ctx, network, address)
	}
	if address == d.proxy.host { // a request in plain http, which is the proxy's to pass on
		return d.proxy.connect(ctx, &d.direct)
	}
	if err := d.checkBehindProxy(address); err != nil {
		return nil, err
	}
	return d.proxy.dial(ctx, &d.direct, address)
}

// checkBehindProxy judges a host by how it is written.
func (d *dialer) checkBehindProxy(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &addressError{host: "it", reason: "it is no host and port"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return checkAddress(addr, d.allowed)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case last == "localhost": // RFC 6761, section 6.3
		return &addressError{host: fault.Printable(fault.Shorten(name)), reason: "loopback"}
	case last == "" || last[0] >= '0' && last[0] <= '9':
		// 127.1, 0x7f000001: inet_aton(3) makes addresses of these. No top-level domain
		// begins with a digit.
		return &addressError{host: fault.Printable(fault.Shorten(name)), reason: "it is an address in a form that is not understood everywhere"}
	}
	return nil
}

// addressError: a host resolved to an address that is not connected to.
type addressError struct {
	host   string
	reason string
}

func (e *addressError) Error() string {
	return "refusing to connect to " + e.host + ": " + e.reason
}

// checkAddress refuses addresses of this machine and of a cloud's services for it, in
// every form that leads there, unless a network that is allowed has them.
func checkAddress(addr netip.Addr, allowed []netip.Prefix) error {
	addr = addr.Unmap().WithZone("")
	isAllowed := func(a netip.Addr) bool {
		return slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if isAllowed(addr) {
		return nil
	}
	if reason := refusal(addr); reason != "" {
		return &addressError{addr.String(), reason}
	}
	for _, inner := range embeddedIPv4(addr) {
		if reason := refusal(inner); reason != "" && !isAllowed(inner) {
			return &addressError{addr.String() + ", which is " + inner.String(), reason}
		}
	}
	return nil
}

// refusal says what an address is that is not connected to, "" of any other.
func refusal(addr netip.Addr) string {
	switch {
	case addr.IsLoopback():
		return "loopback"
	case addr.IsUnspecified() || thisHost.Contains(addr):
		return "unspecified"
	case slices.Contains(metadataServices, addr):
		return "a cloud's metadata service"
	case addr.IsLinkLocalUnicast():
		return "link-local"
	case addr.IsMulticast():
		return "multicast"
	}
	return ""
}

// RefusedAddress finds an addressError below what net/http made of it.
func RefusedAddress(err error) (*addressError, bool) {
	var refused *addressError
	return refused, errors.As(err, &refused)
}
