package downloads

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	wideFormat = regexp.MustCompile(`%[-+ 0#]*([0-9*]{3,}|\*|[0-9]*\.([0-9]{3,}|\*))`)
	anyURL     = regexp.MustCompile(`(?i)\b(?:https?|ftp)://[^\s"'<>|;,()\\]+`)
	sha256Line = regexp.MustCompile(`(?m)^\s*([0-9a-fA-F]{64})\s+\*?(\S+)\s*$`)
)

// architectures are those that nodes have: in the words of uname, and of Go,
// Debian and most publishers.
var architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// program follows a program of the system: what it downloads, and what it prints.
func (k *walker) program(w *world, args []string) []*world {
	base := path.Base(args[0])
	if printed, ok := k.printed(w, base, args[1:]); ok {
		return printed
	}
	w.print(hole(strings.Join(args, " ")))
	if follow, ok := programs[base]; ok {
		follow(k, w, args[1:])
		return []*world{w}
	}
	if !silent[base] {
		k.urls(w, args[1:], "an argument of "+base)
	}
	return []*world{w}
}

// programs are those that download.
var programs = map[string]func(*walker, *world, []string){
	"curl": (*walker).curl, "wget": (*walker).wget,
	"apt-get": (*walker).apt, "apt": (*walker).apt, "aptitude": (*walker).apt,
	"yum": rpmLike("yum"), "dnf": rpmLike("yum"), "dnf5": rpmLike("yum"), "microdnf": rpmLike("yum"), "tdnf": rpmLike("yum"),
	"zypper": rpmLike("zypper"), "apk": rpmLike("apk"),
	"yum-config-manager": (*walker).addRepository, "add-apt-repository": (*walker).addRepository,
	"snap": others("snap"), "pip": others("pip"), "pip3": others("pip"), "npm": others("npm"), "gem": others("gem"),
	"ctr": images, "crictl": images, "docker": images, "nerdctl": images, "podman": images, "skopeo": images,
	"sha256sum": (*walker).checksum, "shasum": (*walker).checksum,
}

// silent are programs whose arguments may be URLs that they do not read.
var silent = map[string]bool{"sed": true, "grep": true, "awk": true, "logger": true, "systemctl": true, "hostnamectl": true, "subscription-manager": true,
	"kubelet": true, "kubeadm": true, "kubectl": true, "containerd": true, "tr": true, "cut": true, "expr": true, "install": true, "mkdir": true}

// printed knows what a few programs print: one world for each possibility.
func (k *walker) printed(w *world, base string, args []string) ([]*world, bool) {
	line := strings.Join(args, " ")
	switch {
	case base == "uname" && (line == "-m" || line == "-p" || line == "-i" || line == "--machine"), base == "arch" && line == "":
		return eachMachine(w, func(uname, _ string) string { return uname }), true
	case base == "dpkg" && line == "--print-architecture":
		return eachMachine(w, func(_, arch string) string { return arch }), true
	case base == "uname" && (line == "" || line == "-s"):
		w.print("Linux\n")
		return []*world{w}, true
	case base == "lsb_release" && strings.Contains(line, "c") && k.node.codename() != "",
		strings.Contains(line, "VERSION_CODENAME") && strings.Contains(line, "/etc/os-release") && k.node.codename() != "":
		w.print(k.node.codename() + "\n")
		return []*world{w}, true
	case base == "." || base == "source":
		if line == "/etc/os-release" {
			for name, value := range k.node.osRelease() {
				w.setText(name, value)
			}
		}
		return []*world{w}, true
	case base == "basename" && len(args) == 1:
		w.print(path.Base(args[0]) + "\n")
		return []*world{w}, true
	case base == "dirname" && len(args) == 1:
		w.print(path.Dir(args[0]) + "\n")
		return []*world{w}, true
	}
	return nil, false
}

// eachMachine makes a world of each architecture, unless it is known by now.
func eachMachine(w *world, print func(uname, arch string) string) []*world {
	var out []*world
	for _, uname := range []string{"x86_64", "aarch64"} {
		if w.machine != "" && w.machine != uname {
			continue
		}
		c := w.clone()
		c.machine, c.status = uname, succeeded
		c.print(print(uname, architectures[uname]) + "\n")
		out = append(out, c)
	}
	return out
}

// url records a file that is downloaded to a path, "" where that is not known.
func (k *walker) url(w *world, url, to, why string) {
	url = strings.TrimSpace(url)
	server := strings.TrimSuffix(k.node.Server, "/")
	if url == "" || server != "" && (url == server || strings.HasPrefix(url, server+"/")) || isLocal(url) {
		return
	}
	if !strings.Contains(url, "://") {
		if isHole(url) || !strings.Contains(known(url), ".") {
			k.unresolvedURL(w, url, why)
			return
		}
		url = "http://" + url // as curl and wget have it
	}
	url = withoutUser(url)
	if hasHole(url) {
		k.unresolvedURL(w, url, why)
		return
	}
	item := k.add(w, Item{Kind: KindURL, Name: url})
	if to != "" && to != "-" {
		w.outputs = with(w.outputs, to, item)
	}
}

func (k *walker) unresolvedURL(w *world, url, why string) {
	if why == "" {
		why = "a part of this URL is known on the node alone"
	}
	k.add(w, Item{Kind: KindUnresolved, Name: shown(url), Reason: why + ": make it constant in the profile, or mirror what it may be"})
}

// add records an item at the present place.
func (k *walker) add(w *world, item Item) *Item {
	item.Places = []Place{k.at}
	if arch, ok := architectures[w.machine]; ok {
		item.Architectures = []string{arch}
	}
	return k.found.add(item)
}

// unresolved records what cannot be followed.
func (k *walker) unresolved(what, reason string) {
	const longest = 200
	if r := []rune(what); len(r) > longest {
		what = string(r[:longest]) + "..."
	}
	k.found.add(Item{Kind: KindUnresolved, Name: what, Reason: reason, Places: []Place{k.at}})
}

// urls records the URLs among arguments.
func (k *walker) urls(w *world, args []string, why string) {
	for _, a := range args {
		for _, m := range anyURL.FindAllString(a, -1) {
			if isHole(a) { // m is in the name of what is not known
				k.unresolvedURL(w, m, why)
				continue
			}
			if hasHole(m) {
				k.url(w, m, "", why)
				continue
			}
			k.url(w, strings.TrimRight(m, ".,"), "", "")
		}
	}
}

func set(names string) map[string]bool {
	out := map[string]bool{}
	for _, n := range strings.Fields(names) {
		out[n] = true
	}
	return out
}

// curlValues are curl's options with a value: https://curl.se/docs/manpage.html
var curlValues = set(`-o --output -H --header -d --data --data-ascii --data-binary --data-raw --data-urlencode --json -X --request --cacert --capath
	--cert -E --key --cert-type --key-type --pass -u --user --connect-timeout --max-time -m --retry --retry-delay --retry-max-time
	--speed-limit -Y --speed-time -y -x --proxy --preproxy --proxy-user -U -A --user-agent -e --referer -b --cookie -c --cookie-jar
	-w --write-out -K --config -T --upload-file -F --form --resolve --connect-to --interface --limit-rate --noproxy --proto --proto-redir
	--proto-default --tls-max --ciphers --tls13-ciphers -C --continue-at -z --time-cond -r --range --output-dir --url --unix-socket
	--max-redirs --max-filesize --dns-servers --doh-url --keepalive-time --local-port --netrc-file --oauth2-bearer --parallel-max
	--pinnedpubkey --proxy-header --proxy-cacert --proxy-cert --proxy-key --quote -Q --socks5 --socks5-hostname --stderr -t -P --trace
	--trace-ascii -D --dump-header --variable --expand-url`)

// curl records what it downloads.
func (k *walker) curl(w *world, args []string) {
	var urls []string
	to, config := "", ""
	for i := 0; i < len(args); i++ {
		a := args[i]
		option, value, has := a, "", false
		switch {
		case strings.HasPrefix(a, "--"):
			option, value, has = strings.Cut(a, "=")
			if curlValues[option] && !has && i+1 < len(args) {
				i++
				value = args[i]
			}
		case strings.HasPrefix(a, "-") && len(a) > 1 && !hasHole(a):
			for j := 1; j < len(a); j++ {
				if option = "-" + a[j:j+1]; curlValues[option] {
					if value = a[j+1:]; value == "" && i+1 < len(args) {
						i++
						value = args[i]
					}
					break
				}
			}
		case a != "":
			urls = append(urls, a)
			continue
		}
		switch option {
		case "-o", "--output":
			to = value
		case "-K", "--config":
			config = value
		case "--url", "--expand-url":
			urls = append(urls, value)
		case "-T", "--upload-file":
			return // the other way
		}
	}
	if config != "" {
		urls = append(urls, k.curlConfig(w, config)...)
	}
	for _, u := range urls {
		target := to
		if target == "" {
			target = path.Base(u) // -O, if at all
		}
		k.url(w, u, target, "")
	}
}

var curlConfigURL = regexp.MustCompile(`(?m)^\s*-*url\s*[=:\s]\s*"?([^"\n]*)"?\s*$`)

// curlConfig are the URLs in a file of options.
func (k *walker) curlConfig(w *world, name string) []string {
	text, ok := "", false
	if name == "-" && w.stdin != nil {
		text, ok = *w.stdin, true
	} else if f := k.node.file(k.stage, name); f != nil {
		text, ok = f.Content, true
	}
	if !ok {
		k.unresolved("curl --config "+shown(name), "the file with curl's options is not in the profile: name the URL in the script")
		return nil
	}
	var out []string
	for _, m := range curlConfigURL.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// wgetValues are wget's: https://www.gnu.org/software/wget/manual/wget.html
var wgetValues = set(`-O --output-document -o --output-file -a --append-output -P --directory-prefix -t --tries -T --timeout --wait -w
	--header --user --password --user-agent -U --post-data --post-file --method --body-data --ca-certificate --certificate --private-key
	-e --execute --limit-rate --bind-address --proxy-user --proxy-password --connect-timeout --read-timeout --dns-timeout -Q --quota
	-A -R -D --load-cookies --save-cookies --referer --retry-on-http-error --waitretry`)

// wget records what it downloads.
func (k *walker) wget(w *world, args []string) {
	to, in := "", ""
	var urls []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if !strings.HasPrefix(a, "-") || a == "-" {
			urls = append(urls, a)
			continue
		}
		option, value, has := strings.Cut(a, "=")
		if !strings.HasPrefix(a, "--") && len(a) > 2 { // -qO FILE, -qOFILE
			for j := 1; j < len(a); j++ {
				if option = "-" + a[j:j+1]; wgetValues[option] || option == "-i" {
					value = a[j+1:]
					has = value != ""
					break
				}
			}
		}
		if (wgetValues[option] || option == "-i" || option == "--input-file") && !has && i+1 < len(args) {
			i++
			value = args[i]
		}
		switch option {
		case "-O", "--output-document":
			to = value
		case "-i", "--input-file":
			in = value
		}
	}
	if in != "" {
		k.unresolved("wget --input-file "+shown(in), "the URLs are in a file: name them in the script")
	}
	for _, u := range urls {
		target := to
		if target == "" {
			target = path.Base(u)
		}
		k.url(w, u, target, "")
	}
}

// checksum notes the digests that files must have.
func (k *walker) checksum(w *world, args []string) {
	if w.stdin == nil || !slices.ContainsFunc(args, func(a string) bool { return a == "-c" || strings.HasPrefix(a, "--c") }) {
		return
	}
	for _, m := range sha256Line.FindAllStringSubmatch(*w.stdin, -1) {
		item := w.outputs[m[2]]
		if item == nil {
			item = w.outputs[strings.TrimSuffix(m[2], ".part")]
		}
		if item != nil {
			item.SHA256 = strings.ToLower(m[1])
		}
	}
}
