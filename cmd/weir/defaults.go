package main

import "time"

// Default is the configuration of a first run: the sample shop, an open sale,
// an embedded Redis. config.yaml says the same with words.
func Default() Config {
	return Config{
		Data:      "data",
		Log:       LogConfig{Level: "info", RefusalsPerSecond: 10},
		Listen:    defaultListen(),
		Admin:     AdminConfig{Address: "127.0.0.1:9090", Tokens: []TokenConfig{}},
		Redis:     RedisConfig{Mode: "auto", Stock: defaultRedisServer()},
		Stock:     StockConfig{ShareBuffer: 0.2, WaitTimeout: 200 * time.Millisecond},
		Archive:   ArchiveConfig{Interval: time.Minute, Keep: 24 * time.Hour},
		Upstream:  defaultUpstream(),
		Identity:  defaultIdentity(),
		Routes:    defaultRoutes(),
		Sales:     []SaleConfig{demoSale()},
		Limits:    defaultLimits(),
		Captcha:   CaptchaConfig{TTL: time.Minute, SoundTTL: 2 * time.Minute, PassTTL: 10 * time.Minute, Digits: 6, Width: 240, Height: 80, MaxLive: 3},
		Blacklist: BlacklistConfig{Poll: 500 * time.Millisecond, MaxEntries: 1_000_000},
		Judge:     JudgeConfig{Enabled: true, Window: time.Minute, Offences: 60, Ban: 10 * time.Minute},
	}
}

func defaultListen() ListenConfig {
	return ListenConfig{
		Address:                  ":8080",
		Prefix:                   "/_weir",
		TrustedProxies:           []string{},
		ReadTimeout:              10 * time.Second,
		WriteTimeout:             30 * time.Second,
		IdleTimeout:              time.Minute,
		HeaderLimit:              16 << 10,
		BodyLimit:                64 << 10,
		MaxConnections:           100_000,
		MaxConnectionsPerAddress: 1000,
		Drain:                    15 * time.Second,
	}
}

func defaultRedisServer() RedisServer {
	return RedisServer{
		Addresses:    []string{},
		DialTimeout:  time.Second,
		ReadTimeout:  500 * time.Millisecond,
		WriteTimeout: 500 * time.Millisecond,
		Pool:         32,
	}
}

func defaultUpstream() UpstreamConfig {
	return UpstreamConfig{
		URL:             sampleUpstream,
		Timeout:         5 * time.Second,
		ConnectTimeout:  time.Second,
		MaxConnections:  64,
		IdleTimeout:     15 * time.Second,
		ResponseLimit:   1 << 20,
		ReleaseStatuses: []int{402, 410, 422},
		Lookup:          "/orders?reservation={id}",
		Orders:          "/orders?sale={sale}",
		OrderPage:       "/orders/{order}",
		KeyID:           "weir-1",
	}
}

func defaultIdentity() IdentityConfig {
	return IdentityConfig{
		JWT: JWTConfig{
			Cookie:         "shop_session",
			Algorithms:     []string{"HS256"},
			PublicKeyFiles: []string{},
			Claim:          "sub",
			Leeway:         5 * time.Second,
		},
		Device: DeviceConfig{Cookie: "weir_device"},
		Cache:  65536,
		SignIn: "/sign-in?next={page}",
	}
}

func defaultRoutes() []RouteConfig {
	return []RouteConfig{
		{Name: "buy", Methods: []string{"POST"}, Path: "/buy/{item}", Kind: "buy", Captcha: true, Auth: "required"},
		{Name: "shop", Methods: []string{"GET", "HEAD"}, Path: "/{rest...}", Kind: "proxy", Auth: "optional"},
	}
}

// newSale holds what a sale in the file may leave out.
func newSale() SaleConfig {
	return SaleConfig{
		Version:     1,
		BuyerLimit:  1,
		MaxQuantity: 1,
		Hold:        2 * time.Minute,
		Expiry:      "ask",
		Settle:      "accept",
		Preheat:     "at_start",
	}
}

func demoSale() SaleConfig {
	s := newSale()
	s.ID, s.Item, s.Name = "demo", "1001", "Enamel mug"
	s.EndsAt = SaleTime{After: 720 * time.Hour}
	s.Total = 100
	return s
}

func defaultLimits() LimitsConfig {
	own := func(rate float64, per time.Duration, burst, size int) OwnLimit {
		return OwnLimit{Rate: rate, Per: per, Burst: burst, Scope: "replica", Size: size, Mode: "enforce"}
	}
	shared := func(rate float64, burst, concurrency, size int) SharedLimit {
		return SharedLimit{Rate: rate, Per: time.Second, Burst: burst, Concurrency: concurrency, Scope: "cluster", Size: size, Mode: "enforce"}
	}
	user := own(2, time.Second, 2, 200_000)
	user.Scope = "cluster"
	return LimitsConfig{
		User:      user,
		Device:    own(4, time.Second, 8, 200_000),
		Address:   own(200, time.Second, 400, 200_000),
		Network:   own(2000, time.Second, 4000, 65_536),
		Pass:      own(1, 2*time.Second, 3, 100_000),
		Signature: own(50, time.Second, 100, 200_000),
		Challenge: own(1, 2*time.Second, 5, 200_000),
		Item:      shared(0, 0, 256, 1024),
		Route:     shared(0, 0, 1024, 256),
		Upstream:  shared(100, 100, 20, 1),
		Cluster:   shared(0, 0, 2048, 1),
		Except:    []LimitException{},
	}
}
