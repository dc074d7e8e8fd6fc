package downloads

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/symbolic"
)

var (
	anyURL     = regexp.MustCompile(`(?i)\b(?:https?|ftp)://[^\s"'<>|;,()\\]+`)
	sha256Line = regexp.MustCompile(`(?m)^\s*([0-9a-fA-F]{64})\s+\*?(\S+)\s*$`)
)

// RunProgram implements symbolic.Machine: it records what a program downloads.
func (k *finder) RunProgram(w *execution.State, args []string) {
	if shell.IsUnknown(args[0]) {
		k.recordURLs(w, args, "an argument of an unknown command")
		return
	}
	base := path.Base(args[0])
	if follow, ok := downloaders[base]; ok {
		follow(k, w, args[1:])
	} else if !downloadsNothing[base] { // any URL of an unknown program can be a download
		k.recordURLs(w, args[1:], "an argument of "+base)
	}
}

// downloaders maps the programs that download to what records it.
var downloaders = map[string]func(*finder, *execution.State, []string){
	"curl": (*finder).recordCurl, "wget": (*finder).recordWget,
	"apt-get": (*finder).recordAptInstall, "apt": (*finder).recordAptInstall, "aptitude": (*finder).recordAptInstall,
	"yum": rpmLike("yum"), "dnf": rpmLike("yum"), "dnf5": rpmLike("yum"), "microdnf": rpmLike("yum"), "tdnf": rpmLike("yum"),
	"zypper": rpmLike("zypper"), "apk": rpmLike("apk"),
	"yum-config-manager": (*finder).addRepository, "add-apt-repository": (*finder).addRepository,
	"snap": otherInstaller("snap"), "pip": otherInstaller("pip"), "pip3": otherInstaller("pip"), "npm": otherInstaller("npm"), "gem": otherInstaller("gem"),
	"ctr": recordPulledImages, "crictl": recordPulledImages, "docker": recordPulledImages, "nerdctl": recordPulledImages, "podman": recordPulledImages, "skopeo": recordPulledImages,
	"sha256sum": (*finder).recordChecksums, "shasum": (*finder).recordChecksums,
}

// downloadsNothing lists programs that can have URLs as arguments and do not download them.
var downloadsNothing = map[string]bool{"sed": true, "grep": true, "awk": true, "logger": true, "systemctl": true, "hostnamectl": true, "subscription-manager": true,
	"kubelet": true, "kubeadm": true, "kubectl": true, "containerd": true, "tr": true, "cut": true, "expr": true, "install": true, "mkdir": true}

// recordURL records a download to a path, "" if the path is unknown.
func (k *finder) recordURL(w *execution.State, address, to, why string) {
	address = strings.TrimSpace(address)
	server := strings.TrimSuffix(k.node.Server, "/")
	if address == "" || server != "" && (address == server || strings.HasPrefix(address, server+"/")) || isLocalOrMetadataURL(address) {
		return
	}
	if !strings.Contains(address, "://") {
		if shell.IsUnknown(address) || !strings.Contains(shell.KnownParts(address), ".") {
			k.recordUnresolvedURL(w, address, why)
			return
		}
		address = "http://" + address // as curl and wget have it
	}
	address = WithoutUser(address)
	if shell.HasUnknown(address) {
		k.recordUnresolvedURL(w, address, why)
		return
	}
	item := k.add(w, Item{Kind: KindURL, Name: address})
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

func (k *finder) recordUnresolvedURL(w *execution.State, url, why string) {
	why = cmp.Or(why, "a part of this URL is known only on the node")
	k.add(w, Item{Kind: KindUnresolved, Name: shell.DisplayText(url), Reason: why + ": make it constant in the profile, or mirror all its possible values"})
}

// add records an item at the current position.
func (k *finder) add(w *execution.State, item Item) *Item {
	item.Positions = []Position{k.position()}
	if arch, ok := symbolic.Architectures[w.Uname]; ok {
		item.Architectures = []string{arch}
	}
	return k.found.add(item)
}

// position returns the position of the current command.
func (k *finder) position() Position {
	return Position{Stage: k.walk.Stage, File: k.walk.Path, FileLine: k.walk.Line}
}

// ReportUnresolved implements symbolic.Machine. It records what cannot be followed.
func (k *finder) ReportUnresolved(what, reason string) {
	const longest = 200
	if r := []rune(what); len(r) > longest {
		what = string(r[:longest]) + "..."
	}
	k.found.add(Item{Kind: KindUnresolved, Name: what, Reason: reason, Positions: []Position{k.position()}})
}

// recordURLs records the URLs among arguments.
func (k *finder) recordURLs(w *execution.State, args []string, why string) {
	for _, a := range args {
		for _, m := range anyURL.FindAllString(a, -1) {
			if shell.IsUnknown(a) { // m is in the name of what is not known
				k.recordUnresolvedURL(w, m, why)
				continue
			}
			if shell.HasUnknown(m) {
				k.recordURL(w, m, "", why)
				continue
			}
			k.recordURL(w, strings.TrimRight(m, ".,"), "", "")
		}
	}
}

// parseURLArgs parses the arguments of a program whose positional arguments are URLs.
func parseURLArgs(t shell.Tool, args []string) (options []shell.Option, urls []string) {
	words := make([]shell.Word, len(args))
	for i, a := range args {
		words[i].Text = a
	}
	options, rest := t.ParseArguments(words)
	for _, w := range rest {
		if w.Text != "" {
			urls = append(urls, w.Text)
		}
	}
	return options, urls
}

// recordCurl records the downloads of curl.
func (k *finder) recordCurl(w *execution.State, args []string) {
	options, urls := parseURLArgs(shell.Curl, args)
	to := ""
	for _, o := range options {
		switch o.Name {
		case "output":
			to = o.Value.Text
		case "config":
			urls = append(urls, k.readCurlConfigURLs(w, o.Value.Text)...)
		case "url", "expand-url":
			urls = append(urls, o.Value.Text)
		case "upload-file":
			return // the other way
		}
	}
	k.recordDownloads(w, urls, to)
}

// recordDownloads records downloads to one file, or to files named after the URLs.
func (k *finder) recordDownloads(w *execution.State, urls []string, to string) {
	for _, u := range urls {
		k.recordURL(w, u, cmp.Or(to, path.Base(u)), "")
	}
}

var curlConfigURL = regexp.MustCompile(`(?m)^\s*-*url\s*[=:\s]\s*"?([^"\n]*)"?\s*$`)

// readCurlConfigURLs returns the URLs in a file of options.
func (k *finder) readCurlConfigURLs(w *execution.State, name string) []string {
	text, ok := k.File(name)
	if name == "-" && w.Stdin != nil {
		text, ok = *w.Stdin, true
	}
	if !ok {
		k.ReportUnresolved("curl --config "+shell.DisplayText(name), "the file with curl's options is not in the profile: write the URL in the script")
		return nil
	}
	var out []string
	for _, m := range curlConfigURL.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// recordWget records the downloads of wget.
func (k *finder) recordWget(w *execution.State, args []string) {
	options, urls := parseURLArgs(shell.Wget, args)
	to := ""
	for _, o := range options {
		switch o.Name {
		case "output-document":
			to = o.Value.Text
		case "input-file":
			k.ReportUnresolved("wget --input-file "+shell.DisplayText(o.Value.Text), "the URLs are in a file: write them in the script")
		}
	}
	k.recordDownloads(w, urls, to)
}

// recordChecksums records the digests that files must have.
func (k *finder) recordChecksums(w *execution.State, args []string) {
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
