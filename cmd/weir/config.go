package main

import "time"

// Config is the whole of config.yaml. It holds no secret, only the paths of the
// files that hold them; Secrets reads those. Every field is explained, with
// unit, default and danger, in config.yaml, which equals Default.
//
// The tag `yaml` names the key; `env` on a …_file key names the environment
// variable that may carry the same secret and wins over the file.
type Config struct {
	Data       string          `yaml:"data"`
	SecretFile string          `yaml:"secret_file" env:"WEIR_SECRET"`
	Log        LogConfig       `yaml:"log"`
	Listen     ListenConfig    `yaml:"listen"`
	Admin      AdminConfig     `yaml:"admin"`
	Redis      RedisConfig     `yaml:"redis"`
	Stock      StockConfig     `yaml:"stock"`
	Archive    ArchiveConfig   `yaml:"archive"`
	Upstream   UpstreamConfig  `yaml:"upstream"`
	Identity   IdentityConfig  `yaml:"identity"`
	Routes     []RouteConfig   `yaml:"routes"`
	Sales      []SaleConfig    `yaml:"sales"`
	Limits     LimitsConfig    `yaml:"limits"`
	Captcha    CaptchaConfig   `yaml:"captcha"`
	Blacklist  BlacklistConfig `yaml:"blacklist"`
	Judge      JudgeConfig     `yaml:"judge"`
}

// LogConfig says what is written to stderr.
type LogConfig struct {
	Level             string `yaml:"level"`               // debug, info, warn, error
	RefusalsPerSecond int    `yaml:"refusals_per_second"` // log lines of refused requests, 0 = none
}

// ListenConfig is the public listener.
type ListenConfig struct {
	Address                  string        `yaml:"address"`
	Prefix                   string        `yaml:"prefix"`
	TrustedProxies           []string      `yaml:"trusted_proxies"` // addresses and CIDRs
	PublicURL                string        `yaml:"public_url"`      // scheme://host, "" = from the Host header
	ReadTimeout              time.Duration `yaml:"read_timeout"`
	WriteTimeout             time.Duration `yaml:"write_timeout"`
	IdleTimeout              time.Duration `yaml:"idle_timeout"`
	HeaderLimit              Size          `yaml:"header_limit"`
	BodyLimit                Size          `yaml:"body_limit"`
	MaxConnections           int           `yaml:"max_connections"`
	MaxConnectionsPerAddress int           `yaml:"max_connections_per_address"`
	Drain                    time.Duration `yaml:"drain"`
}

// AdminConfig is the private listener.
type AdminConfig struct {
	Address string        `yaml:"address"`
	Tokens  []TokenConfig `yaml:"tokens"`
}

// TokenConfig names one bearer of the private API.
type TokenConfig struct {
	Name      string `yaml:"name"`
	Role      string `yaml:"role"` // viewer, security, merchandiser, operator, shop
	TokenFile string `yaml:"token_file" env:"WEIR_ADMIN_TOKEN"`
}

// RedisConfig says where stock, passes and lists live.
type RedisConfig struct {
	Mode   string       `yaml:"mode"` // auto, memory, local, external
	Stock  RedisServer  `yaml:"stock"`
	Shared *RedisServer `yaml:"shared"` // nil = the stock's
}

// RedisServer is one external Redis: a single address, a Sentinel group
// (Master set), or a Cluster (several addresses, no Master).
type RedisServer struct {
	Addresses    []string      `yaml:"addresses"` // host:port or unix:/path
	Master       string        `yaml:"master"`
	Username     string        `yaml:"username"`
	PasswordFile string        `yaml:"password_file" env:"WEIR_REDIS_PASSWORD"`
	TLS          bool          `yaml:"tls"`
	CAFile       string        `yaml:"ca_file"` // who signed its certificate; "" = whom this host trusts
	DB           int           `yaml:"db"`
	DialTimeout  time.Duration `yaml:"dial_timeout"`
	ReadTimeout  time.Duration `yaml:"read_timeout"`
	WriteTimeout time.Duration `yaml:"write_timeout"`
	Pool         int           `yaml:"pool"`
}

// StockConfig says how careful and how eager a replica is with the stock.
type StockConfig struct {
	ShareBuffer  float64       `yaml:"share_buffer"`
	WaitReplicas int           `yaml:"wait_replicas"` // 0 = no WAIT
	WaitTimeout  time.Duration `yaml:"wait_timeout"`
}

// ArchiveConfig is the SQL database that proves sales when Redis has forgotten
// them. Off when URL is "".
type ArchiveConfig struct {
	URL          string        `yaml:"url"` // sqlite:PATH or postgres://…
	PasswordFile string        `yaml:"password_file" env:"WEIR_ARCHIVE_PASSWORD"`
	Interval     time.Duration `yaml:"interval"`
	Keep         time.Duration `yaml:"keep"`
}

// UpstreamConfig is the shop behind weir.
type UpstreamConfig struct {
	URL             string        `yaml:"url"` // "sample" or scheme://host
	Timeout         time.Duration `yaml:"timeout"`
	ConnectTimeout  time.Duration `yaml:"connect_timeout"`
	MaxConnections  int           `yaml:"max_connections"`
	IdleTimeout     time.Duration `yaml:"idle_timeout"`
	ResponseLimit   Size          `yaml:"response_limit"`
	ReleaseStatuses []int         `yaml:"release_statuses"`
	Lookup          string        `yaml:"lookup"`     // path with {id}; "" = the shop cannot be asked
	Orders          string        `yaml:"orders"`     // path with {sale}; "" = the shop has no list
	Quota           string        `yaml:"quota"`      // path with {item} and {sale}; "" = nothing is frozen
	OrderPage       string        `yaml:"order_page"` // the shop's page of an order, with {order}; "" = none
	KeyID           string        `yaml:"key_id"`
}

// Sample says whether the built-in sample shop is the upstream.
func (u UpstreamConfig) Sample() bool { return u.URL == sampleUpstream }

// sampleUpstream is the url that means the built-in sample shop.
const sampleUpstream = "sample"

// IdentityConfig says how a request names its user and its device.
type IdentityConfig struct {
	JWT    JWTConfig    `yaml:"jwt"`
	Header string       `yaml:"header"` // user id header, believed only from trusted proxies
	Cookie CookieConfig `yaml:"cookie"`
	Device DeviceConfig `yaml:"device"`
	Cache  int          `yaml:"cache"` // verified signatures remembered
	// SignIn is the shop's page for visitors who are not signed in; {page} becomes
	// the way back.
	SignIn string `yaml:"sign_in"`
}

// JWTConfig verifies the shop's session token. Off when Cookie and Header are "".
type JWTConfig struct {
	Cookie         string        `yaml:"cookie"`
	Header         string        `yaml:"header"`
	Algorithms     []string      `yaml:"algorithms"` // HS256, RS256, EdDSA
	SecretFile     string        `yaml:"secret_file" env:"WEIR_JWT_SECRET"`
	PublicKeyFiles []string      `yaml:"public_key_files"`
	Issuer         string        `yaml:"issuer"`
	Audience       string        `yaml:"audience"`
	Claim          string        `yaml:"claim"`
	Leeway         time.Duration `yaml:"leeway"`
}

// On says whether any request is looked at for a token.
func (j JWTConfig) On() bool { return j.Cookie != "" || j.Header != "" }

// CookieConfig verifies a cookie `user.hex(hmac-sha256(secret, user))`. Off when Name is "".
type CookieConfig struct {
	Name       string `yaml:"name"`
	SecretFile string `yaml:"secret_file" env:"WEIR_COOKIE_SECRET"`
}

// DeviceConfig names a device; "" turns a source off.
type DeviceConfig struct {
	Header string `yaml:"header"` // believed only from trusted proxies
	Cookie string `yaml:"cookie"`
}

// RouteConfig is one line of the route table; the first match wins.
type RouteConfig struct {
	Name      string   `yaml:"name"`
	Methods   []string `yaml:"methods"`
	Path      string   `yaml:"path"`
	Kind      string   `yaml:"kind"`       // buy, proxy
	Captcha   bool     `yaml:"captcha"`    // buy only
	Auth      string   `yaml:"auth"`       // required, optional
	BodyLimit Size     `yaml:"body_limit"` // 0 = listen.body_limit
}

// SaleConfig is one planned sale; Plan turns it into an inventory.Sale.
type SaleConfig struct {
	ID          string        `yaml:"id"`
	Version     int64         `yaml:"version"`
	Item        string        `yaml:"item"`
	Name        string        `yaml:"name"`
	StartsAt    SaleTime      `yaml:"starts_at"`
	EndsAt      SaleTime      `yaml:"ends_at"`
	Total       int64         `yaml:"total"`
	SafetyStock int64         `yaml:"safety_stock"`
	Buckets     int           `yaml:"buckets"` // 0 = one per master
	BucketCap   int64         `yaml:"bucket_cap"`
	BuyerLimit  int64         `yaml:"buyer_limit"`
	MaxQuantity int64         `yaml:"max_quantity"`
	Hold        time.Duration `yaml:"hold"`
	Expiry      string        `yaml:"expiry"`  // free, ask
	Settle      string        `yaml:"settle"`  // accept, payment
	Preheat     string        `yaml:"preheat"` // at_start, by_hand
}

// LimitsConfig holds the layers: the caller's own ones first, then the shared ones.
type LimitsConfig struct {
	User      OwnLimit    `yaml:"user"`
	Device    OwnLimit    `yaml:"device"`
	Address   OwnLimit    `yaml:"address"`
	Network   OwnLimit    `yaml:"network"`
	Pass      OwnLimit    `yaml:"pass"`
	Signature OwnLimit    `yaml:"signature"`
	Challenge OwnLimit    `yaml:"challenge"`
	Item      SharedLimit `yaml:"item"`
	Route     SharedLimit `yaml:"route"`
	Upstream  SharedLimit `yaml:"upstream"`
	Cluster   SharedLimit `yaml:"cluster"`
	// Except gives single keys of these layers numbers of their own.
	Except []LimitException `yaml:"except"`
}

// LimitException are the numbers of one key of a layer, in the layer's period and scope.
type LimitException struct {
	Layer       string  `yaml:"layer"`
	Key         string  `yaml:"key"`
	Rate        float64 `yaml:"rate"`
	Burst       int     `yaml:"burst"`
	Concurrency int     `yaml:"concurrency"`
	Mode        string  `yaml:"mode"` // enforce, off
}

// OwnLimit is a token bucket per key: Rate tokens each Per, at most Burst saved.
type OwnLimit struct {
	Rate  float64       `yaml:"rate"`
	Per   time.Duration `yaml:"per"`
	Burst int           `yaml:"burst"`
	Scope string        `yaml:"scope"` // replica, cluster
	Size  int           `yaml:"size"`  // most keys remembered
	Mode  string        `yaml:"mode"`  // enforce, shadow, off
}

// SharedLimit is a token bucket (Rate 0 = none) and a count of requests in flight.
// Scope says whose events the bucket counts; the count is always this replica's.
type SharedLimit struct {
	Rate        float64       `yaml:"rate"`
	Per         time.Duration `yaml:"per"`
	Burst       int           `yaml:"burst"`
	Concurrency int           `yaml:"concurrency"`
	Scope       string        `yaml:"scope"` // of Rate: replica, cluster
	Size        int           `yaml:"size"`
	Mode        string        `yaml:"mode"`
}

// CaptchaConfig shapes challenges and the pass they earn.
type CaptchaConfig struct {
	TTL      time.Duration `yaml:"ttl"`
	SoundTTL time.Duration `yaml:"sound_ttl"`
	PassTTL  time.Duration `yaml:"pass_ttl"`
	Digits   int           `yaml:"digits"`
	Width    int           `yaml:"width"`  // pixels
	Height   int           `yaml:"height"` // pixels
	MaxLive  int           `yaml:"max_live"`
}

// BlacklistConfig bounds the list of bans that each replica keeps.
type BlacklistConfig struct {
	Poll       time.Duration `yaml:"poll"`
	MaxEntries int           `yaml:"max_entries"`
}

// JudgeConfig bans who offends too often.
type JudgeConfig struct {
	Enabled  bool          `yaml:"enabled"`
	Window   time.Duration `yaml:"window"`
	Offences int           `yaml:"offences"`
	Ban      time.Duration `yaml:"ban"`
}
