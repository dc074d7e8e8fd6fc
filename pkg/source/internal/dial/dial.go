package dial

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Dialer connects to hosts of repositories. It checks addresses after the name was
// resolved and at every connection, so that neither DNS nor a redirect leads to this
// machine or to a cloud's metadata service. Private networks are allowed, because Git
// servers are often there.
//
// Behind a proxy the proxy resolves the name, and we cannot check the result. The address
// of the proxy itself is checked like any other, and so is a host that is written as an
// address. Names that mean the machine they are resolved on are rejected. The proxy is
// responsible for everything else that it can reach.
type Dialer struct {
	direct  net.Dialer
	allowed []netip.Prefix
	proxy   *Proxy // nil if there is none
}

// NewDialer returns a dialer that gives up after timeout. Addresses in allowed are not
// rejected; proxy is nil for none.
func NewDialer(timeout time.Duration, allowed []netip.Prefix, proxy *Proxy) *Dialer {
	return &Dialer{
		direct: net.Dialer{
			Timeout: timeout,
			// This runs after name resolution, so that a name cannot lead to another address than
			// the checked one.
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
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.proxy == nil {
		return d.direct.DialContext(ctx, network, address)
	}
	if address == d.proxy.host { // a request in plain http, which the proxy forwards
		return d.proxy.connect(ctx, &d.direct)
	}
	if err := d.checkBehindProxy(address); err != nil {
		return nil, err
	}
	return d.proxy.dial(ctx, &d.direct, address)
}

// CheckRequest checks the host of a request that a proxy possibly resolves. Without a
// proxy, the address is checked when it is dialed.
func (d *Dialer) CheckRequest(req *http.Request) error {
	if d.proxy == nil {
		return nil
	}
	return d.checkBehindProxy(net.JoinHostPort(req.URL.Hostname(), req.URL.Port()))
}

// checkBehindProxy checks a host by its name only.
func (d *Dialer) checkBehindProxy(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &addressError{host: "it", reason: "it is not host:port"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return checkAddress(addr, d.allowed)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case last == "localhost": // RFC 6761, section 6.3
		return &addressError{host: fault.EscapeUnprintable(fault.Shorten(name)), reason: "loopback"}
	case last == "" || last[0] >= '0' && last[0] <= '9':
		// inet_aton(3) parses these as addresses: 127.1, 0x7f000001. No top-level domain
		// begins with a digit.
		return &addressError{host: fault.EscapeUnprintable(fault.Shorten(name)), reason: "it is an IP address in a non-standard form"}
	}
	return nil
}

// addressError reports that a host resolved to a rejected address.
type addressError struct {
	host   string
	reason string
}

func (e *addressError) Error() string {
	return "refusing to connect to " + e.host + ": " + e.reason
}

// checkAddress rejects addresses of this machine and of a cloud's services for it, in
// every form that leads there, unless an allowed network contains them.
func checkAddress(addr netip.Addr, allowed []netip.Prefix) error {
	// The same address has several spellings.
	addr = addr.Unmap().WithZone("")
	isAllowed := func(a netip.Addr) bool {
		return slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if isAllowed(addr) {
		return nil
	}
	if reason := rejectionReason(addr); reason != "" {
		return &addressError{addr.String(), reason}
	}
	for _, inner := range embeddedIPv4(addr) {
		if reason := rejectionReason(inner); reason != "" && !isAllowed(inner) {
			return &addressError{addr.String() + ", which is " + inner.String(), reason}
		}
	}
	return nil
}

// rejectionReason returns what makes an address rejected, "" for an allowed one.
func rejectionReason(addr netip.Addr) string {
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

// AsAddressError finds the error about a rejected address in an error of net/http.
func AsAddressError(err error) (*addressError, bool) {
	return errors.AsType[*addressError](err)
}
