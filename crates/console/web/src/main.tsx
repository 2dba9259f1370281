import { render } from "preact";
import { App } from "./app.js";
import { applyTheme } from "./parts/theme.js";
import "./style.css";

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
