// Looks at pages in Chromium, for browser_test.go: a plan comes in on standard input, and
// what was seen goes out on standard output, both as JSON. The first argument is the
// folder with node_modules, the second Chromium.
"use strict";
const fs = require("node:fs");
const { createRequire } = require("node:module");
const from = createRequire(process.argv[2] + "/package.json");
const { chromium } = from("playwright-core");
const axe = fs.readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");

const variants = {
  light: { viewport: { width: 1280, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 360, height: 780 }, colorScheme: "light", isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
  phonedark: { viewport: { width: 360, height: 780 }, colorScheme: "dark", isMobile: true, hasTouch: true, deviceScaleFactor: 2 },
  zoomed: { viewport: { width: 320, height: 512 }, colorScheme: "light" }, // 1280 by 1024 at 400 %
};

// pages are open, one for each kind of screen. Looks follow each other in it: a new window and a renderer
// that has not compiled axe-core yet take twice the CPU of a look.
const pages = new Map();

// pageFor gives a page with the screen and the colors of a variant, and opens it for the first look.
async function pageFor(browser, look) {
  const { viewport, colorScheme, ...screen } = variants[look.variant];
  const key = JSON.stringify([screen, look.password]);
  if (!pages.has(key)) {
    const context = await browser.newContext({ ...screen, reducedMotion: "reduce", locale: "en-GB", ...(look.password ? { httpCredentials: { username: "token", password: look.password } } : {}), ignoreHTTPSErrors: !!look.password });
    await context.addInitScript(axe); // by the debugger's protocol, once: the page's own policy lets nothing run
    pages.set(key, await context.newPage());
  }
  const page = pages.get(key);
  page.removeAllListeners(); // of the look before, whose page is still there
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme });
  return page;
}

// see opens an address in one variant and tells what there is.
async function see(browser, look) {
  const out = { url: look.url, variant: look.variant, problems: [], requests: [], violations: [] };
  const page = await pageFor(browser, look);
  try {
    page.on("console", (m) => { if (["error", "warning"].includes(m.type())) out.problems.push("console: " + m.text()); });
    page.on("pageerror", (e) => out.problems.push("script: " + e.message));
    page.on("dialog", (d) => { out.problems.push("dialog: " + d.message()); d.dismiss(); });
    page.on("request", (r) => out.requests.push(r.url()));
    const answer = await page.goto(look.url, { waitUntil: "load" });
    out.status = answer.status();
    Object.assign(out, await page.evaluate(() => ({
      title: document.title,
      heading: document.querySelector("h1")?.textContent ?? "",
      text: document.querySelector("main")?.innerText ?? "",
      back: getComputedStyle(document.body).backgroundColor,
      ink: getComputedStyle(document.body).color,
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      scripts: document.scripts.length,
      handlers: [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes].filter((a) => /^on/i.test(a.name) || /^\s*javascript:/i.test(a.value)).map((a) => e.tagName + " " + a.name)),
      elements: [...new Set([...document.querySelectorAll("*")].map((e) => e.tagName.toLowerCase()))].sort(),
      headings: [...document.querySelectorAll("h1,h2,h3,h4")].map((h) => +h.tagName[1]),
    })));
    if (!look.plain) await judge(page, out);
    if (look.keyboard) out.keyboard = await byKeyboard(page);
    if (look.screenshot) {
      const { width } = variants[look.variant].viewport;
      const height = await page.evaluate((most) => Math.min(document.documentElement.scrollHeight, most), look.height || 1e4);
      await page.screenshot({ path: look.screenshot, fullPage: true, clip: { x: 0, y: 0, width, height }, animations: "disabled" });
    }
  } catch (e) {
    out.problems.push("looking: " + e.message);
  }
  return out;
}

// judge has axe-core say what is wrong with a page.
async function judge(page, out) {
  const result = await page.evaluate(async () => {
    const { passes, violations } = await axe.run(document, { resultTypes: ["violations"], selectors: false });
    return { rules: passes.length, violations };
  });
  out.rules = result.rules;
  out.violations = result.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " " + (n.any[0]?.message ?? "")).join(" | "));
}

// byKeyboard goes through a page with the tab key and tells where it comes, and what does
// not show that it has the focus.
async function byKeyboard(page) {
  const stops = [];
  await page.evaluate(() => window.scrollTo(0, 0));
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return null;
      const s = getComputedStyle(e);
      return { name: (e.getAttribute("aria-label") || e.textContent || e.getAttribute("name") || "").trim().slice(0, 60), tag: e.tagName.toLowerCase(), seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 };
    });
    if (!stop) break;
    stops.push(stop);
  }
  return stops;
}

// walk does what a person does who has switched JavaScript off.
async function walk(browser, steps) {
  const context = await browser.newContext({ ...variants.light, javaScriptEnabled: false });
  const out = [];
  try {
    const page = await context.newPage();
    for (const s of steps) {
      const before = page.url();
      if (s.open) await page.goto(s.open);
      if (s.click) await page.getByRole("link", { name: s.click, exact: true }).first().click();
      if (s.fill) await page.getByRole("searchbox", { name: s.fill }).fill(s.with);
      if (s.press) await page.keyboard.press(s.press);
      await page.waitForURL((u) => u.toString() !== before, { waitUntil: "load" });
      out.push({ at: page.url(), heading: (await page.locator("h1").first().textContent()).trim() });
    }
  } catch (e) {
    out.push({ at: "", heading: "", problem: e.message });
  } finally {
    await context.close();
  }
  return out;
}

(async () => {
  const plan = JSON.parse(fs.readFileSync(0, "utf8"));
  // A page ends before optimized code pays: without it, a look takes a tenth less CPU.
  const browser = await chromium.launch({ executablePath: process.argv[3], args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none", "--js-flags=--no-opt"] });
  try {
    const seen = [];
    for (const look of plan.looks ?? []) seen.push(await see(browser, look));
    const walked = plan.walk ? await walk(browser, plan.walk) : [];
    process.stdout.write(JSON.stringify({ version: browser.version(), seen, walked }));
  } finally {
    await browser.close();
  }
})().catch((e) => { console.error(e.message); process.exit(1); });
