# Package managers print the URLs that they fail to read. What a mirror's URL has of
# user and password goes into a file of root's instead, decoded as they want it.
docker="{{ with .DownloadMirrors.docker }}{{ trimSuffix "/" . }}{{ else }}https://download.docker.com{{ end }}"
decoded() {
  printf '%b' "${1//%/\\x}"
}
public=$docker user='' password=''
if [[ $docker =~ ^(https?://)([^/@]*)@(.*)$ ]]; then
  public=${BASH_REMATCH[1]}${BASH_REMATCH[3]} user=${BASH_REMATCH[2]}
  if [[ $user == *:* ]]; then
    password=$(decoded "${user#*:}")
  fi
  user=$(decoded "${user%%:*}")
fi
