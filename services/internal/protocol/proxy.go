package protocol

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// ProxyFor is the proxy on the way to the one Server, from the variables people set: HTTPS_PROXY or HTTP_PROXY by the
// Server's scheme, else ALL_PROXY, each also in lower case, unless NO_PROXY names the Server (10.23). The standard
// library does not read ALL_PROXY. A Server on loopback is never proxied. nil means none. It fails on a proxy that cannot
// be understood; the text never holds the proxy's password. It contacts nobody.
func ProxyFor(server *url.URL, getenv func(string) string) (*url.URL, error) {
	read := func(name string) (string, string) {
		for _, n := range []string{name, strings.ToLower(name)} {
			if v := strings.TrimSpace(getenv(n)); v != "" {
				return n, v
			}
		}
		return "", ""
	}
	name, value := read(strings.ToUpper(server.Scheme) + "_PROXY")
	if value == "" {
		name, value = read("ALL_PROXY")
	}
	if value == "" {
		return nil, nil
	}
	if _, exceptions := read("NO_PROXY"); bypassed(server, exceptions) {
		return nil, nil
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	proxy, err := url.Parse(value)
	if err != nil || proxy.Hostname() == "" {
		return nil, fmt.Errorf("protocol: %s is no proxy's URL; expected something like http://proxy.example:3128", name)
	}
	switch proxy.Scheme {
	case "http", "https", "socks5", "socks5h":
		return proxy, nil
	}
	return nil, fmt.Errorf("protocol: %s has the scheme %q; expected http, https, socks5 or socks5h", name, proxy.Scheme)
}

// bypassed says whether the Server is reached without a proxy: it is on loopback, or an entry of the comma-separated
// exceptions is "*", its host (with or without its port), a domain above it, its address or a network around it.
func bypassed(server *url.URL, exceptions string) bool {
	host := strings.ToLower(strings.TrimSuffix(server.Hostname(), "."))
	addr, addrErr := netip.ParseAddr(host)
	if host == "localhost" || addrErr == nil && addr.IsLoopback() {
		return true
	}
	port := server.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[server.Scheme]
	}
	for entry := range strings.SplitSeq(strings.ToLower(exceptions), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if entry == "*" {
			return true
		}
		if network, err := netip.ParsePrefix(entry); err == nil {
			if addrErr == nil && network.Contains(addr.Unmap()) {
				return true
			}
			continue
		}
		if h, p, err := net.SplitHostPort(entry); err == nil {
			if p != port {
				continue
			}
			entry = h
		}
		entry = strings.Trim(entry, "[]")
		if other, err := netip.ParseAddr(entry); err == nil {
			if addrErr == nil && other.Unmap() == addr.Unmap() {
				return true
			}
			continue
		}
		bare := strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if bare != "" && (host == bare && !strings.HasPrefix(entry, ".") || strings.HasSuffix(host, "."+bare)) {
			return true
		}
	}
	return false
}
