package downloads

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

var (
	anyURL     = regexp.MustCompile(`(?i)\b(?:https?|ftp)://[^\s"'<>|;,()\\]+`)
	sha256Line = regexp.MustCompile(`(?m)^\s*([0-9a-fA-F]{64})\s+\*?(\S+)\s*$`)
)

// Program implements shell.Machine: it records what a program downloads.
func (k *finder) Program(w *shell.State, args []string) {
	if shell.IsUnknown(args[0]) {
		k.urls(w, args, "an argument of an unknown command")
		return
	}
	base := path.Base(args[0])
	if follow, ok := programs[base]; ok {
		follow(k, w, args[1:])
	} else if !silent[base] {
		k.urls(w, args[1:], "an argument of "+base)
	}
}

// programs maps the programs that download.
var programs = map[string]func(*finder, *shell.State, []string){
	"curl": (*finder).curl, "wget": (*finder).wget,
	"apt-get": (*finder).apt, "apt": (*finder).apt, "aptitude": (*finder).apt,
	"yum": rpmLike("yum"), "dnf": rpmLike("yum"), "dnf5": rpmLike("yum"), "microdnf": rpmLike("yum"), "tdnf": rpmLike("yum"),
	"zypper": rpmLike("zypper"), "apk": rpmLike("apk"),
	"yum-config-manager": (*finder).addRepository, "add-apt-repository": (*finder).addRepository,
	"snap": others("snap"), "pip": others("pip"), "pip3": others("pip"), "npm": others("npm"), "gem": others("gem"),
	"ctr": images, "crictl": images, "docker": images, "nerdctl": images, "podman": images, "skopeo": images,
	"sha256sum": (*finder).checksum, "shasum": (*finder).checksum,
}

// silent lists programs that can have URLs as arguments and do not download them.
var silent = map[string]bool{"sed": true, "grep": true, "awk": true, "logger": true, "systemctl": true, "hostnamectl": true, "subscription-manager": true,
	"kubelet": true, "kubeadm": true, "kubectl": true, "containerd": true, "tr": true, "cut": true, "expr": true, "install": true, "mkdir": true}

// url records a download to a path, "" if the path is unknown.
func (k *finder) url(w *shell.State, url, to, why string) {
	url = strings.TrimSpace(url)
	server := strings.TrimSuffix(k.node.Server, "/")
	if url == "" || server != "" && (url == server || strings.HasPrefix(url, server+"/")) || isLocal(url) {
		return
	}
	if !strings.Contains(url, "://") {
		if shell.IsUnknown(url) || !strings.Contains(shell.KnownParts(url), ".") {
			k.unresolvedURL(w, url, why)
			return
		}
		url = "http://" + url // as curl and wget have it
	}
	url = withoutUser(url)
	if shell.HasUnknown(url) {
		k.unresolvedURL(w, url, why)
		return
	}
	item := k.add(w, Item{Kind: KindURL, Name: url})
	if to != "" && to != "-" {
		f := effectsOf(w)
		f.outputs = maps.Clone(f.outputs)
		if f.outputs == nil {
			f.outputs = map[string]*Item{}
		}
		f.outputs[to] = item
		w.Effects = f
	}
}

func (k *finder) unresolvedURL(w *shell.State, url, why string) {
	if why == "" {
		why = "a part of this URL is known only on the node"
	}
	k.add(w, Item{Kind: KindUnresolved, Name: shell.Shown(url), Reason: why + ": make it constant in the profile, or mirror all its possible values"})
}

// add records an item at the current position.
func (k *finder) add(w *shell.State, item Item) *Item {
	item.Positions = []Position{k.position()}
	if arch, ok := shell.Architectures[w.Uname]; ok {
		item.Architectures = []string{arch}
	}
	return k.found.add(item)
}

// position returns the position of the current command.
func (k *finder) position() Position {
	return Position{Stage: k.walk.Stage, File: k.walk.Path, FileLine: k.walk.Line}
}

// Unresolved implements shell.Machine. It records what cannot be followed.
func (k *finder) Unresolved(what, reason string) {
	const longest = 200
	if r := []rune(what); len(r) > longest {
		what = string(r[:longest]) + "..."
	}
	k.found.add(Item{Kind: KindUnresolved, Name: what, Reason: reason, Positions: []Position{k.position()}})
}

// urls records the URLs among arguments.
func (k *finder) urls(w *shell.State, args []string, why string) {
	for _, a := range args {
		for _, m := range anyURL.FindAllString(a, -1) {
			if shell.IsUnknown(a) { // m is in the name of what is not known
				k.unresolvedURL(w, m, why)
				continue
			}
			if shell.HasUnknown(m) {
				k.url(w, m, "", why)
				continue
			}
			k.url(w, strings.TrimRight(m, ".,"), "", "")
		}
	}
}

// read parses the arguments of a program whose positional arguments are URLs.
func read(t shell.Tool, args []string) (options []shell.Option, urls []string) {
	words := make([]shell.Word, len(args))
	for i, a := range args {
		words[i].Text = a
	}
	options, rest := t.Read(words)
	for _, w := range rest {
		if w.Text != "" {
			urls = append(urls, w.Text)
		}
	}
	return options, urls
}

// curl records the downloads of curl.
func (k *finder) curl(w *shell.State, args []string) {
	options, urls := read(shell.Curl, args)
	to := ""
	for _, o := range options {
		switch o.Name {
		case "output":
			to = o.Value.Text
		case "config":
			urls = append(urls, k.curlConfig(w, o.Value.Text)...)
		case "url", "expand-url":
			urls = append(urls, o.Value.Text)
		case "upload-file":
			return // the other way
		}
	}
	k.files(w, urls, to)
}

// files records downloads to one file, or to files named after the URLs.
func (k *finder) files(w *shell.State, urls []string, to string) {
	for _, u := range urls {
		k.url(w, u, cmp.Or(to, path.Base(u)), "")
	}
}

var curlConfigURL = regexp.MustCompile(`(?m)^\s*-*url\s*[=:\s]\s*"?([^"\n]*)"?\s*$`)

// curlConfig returns the URLs in a file of options.
func (k *finder) curlConfig(w *shell.State, name string) []string {
	text, ok := k.File(name)
	if name == "-" && w.Stdin != nil {
		text, ok = *w.Stdin, true
	}
	if !ok {
		k.Unresolved("curl --config "+shell.Shown(name), "the file with curl's options is not in the profile: write the URL in the script")
		return nil
	}
	var out []string
	for _, m := range curlConfigURL.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// wget records the downloads of wget.
func (k *finder) wget(w *shell.State, args []string) {
	options, urls := read(shell.Wget, args)
	to := ""
	for _, o := range options {
		switch o.Name {
		case "output-document":
			to = o.Value.Text
		case "input-file":
			k.Unresolved("wget --input-file "+shell.Shown(o.Value.Text), "the URLs are in a file: write them in the script")
		}
	}
	k.files(w, urls, to)
}

// checksum records the digests that files must have.
func (k *finder) checksum(w *shell.State, args []string) {
	if w.Stdin == nil || !slices.ContainsFunc(args, func(a string) bool { return a == "-c" || strings.HasPrefix(a, "--c") }) {
		return
	}
	for _, m := range sha256Line.FindAllStringSubmatch(*w.Stdin, -1) {
		item := effectsOf(w).outputs[m[2]]
		if item == nil {
			item = effectsOf(w).outputs[strings.TrimSuffix(m[2], ".part")]
		}
		if item != nil {
			item.SHA256 = strings.ToLower(m[1])
		}
	}
}
