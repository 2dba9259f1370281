// Builds the console into ../assets; with --check, compares a fresh build with the committed files and writes nothing.

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import zlib from "node:zlib";
import { build } from "esbuild";

/** Upper limit of all files together, compressed by gzip. */
const COMPRESSED_BYTES_MAX = 80 * 1024;

const here = path.dirname(fileURLToPath(import.meta.url));
const assets = path.resolve(here, "../assets");

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: assets,
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  banner: { js: `/*!\n${fs.readFileSync(path.join(here, "static/licence.txt"), "utf8")}*/` },
});
const files = new Map(result.outputFiles.map((file) => [path.basename(file.path), Buffer.from(file.contents)]));
for (const name of ["index.html", "icon.svg"]) files.set(name, fs.readFileSync(path.join(here, "static", name)));

const sizes = [...files].map(([name, contents]) => [name, zlib.gzipSync(contents, { level: 9 }).length]);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);
console.log(sizes.map(([name, size]) => `${name} ${size}`).join(", "), `= ${total} bytes compressed`);
if (total > COMPRESSED_BYTES_MAX) fail(`more than ${COMPRESSED_BYTES_MAX} bytes`);

if (process.argv.includes("--check")) {
  const committed = fs.readdirSync(assets).sort();
  if (committed.join() !== [...files.keys()].sort().join()) fail(`unexpected files in ${assets}: ${committed}`);
  for (const [name, contents] of files) {
    if (!contents.equals(fs.readFileSync(path.join(assets, name)))) fail(`${name} is not what the sources give: npm run build`);
  }
} else {
  fs.mkdirSync(assets, { recursive: true });
  for (const [name, contents] of files) fs.writeFileSync(path.join(assets, name), contents);
}

function fail(reason) {
  console.error(reason);
  process.exit(1);
}
