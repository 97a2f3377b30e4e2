"""The page in the hands of an administrator: what the steps of Rules, Users and Health share."""


def be_administrator(page, hub, tab):
    """Opens a tab of a development hub and continues as its owner."""
    page.open(hub, f"#ns=default&tab={tab}")
    page.until("return document.querySelector('.tab:not([hidden]) .gate [data-offer=owner]').checkVisibility({ visibilityProperty: true })", "the owner's button")
    page.find(".tab:not([hidden]) .gate [data-offer=owner]").click()
    page.until("return vigla.connection.identity?.admin === true", "an administrator")


def replace(page, selector, text):
    """Puts a text into a text area as if it had been pasted."""
    page.run("const area = document.querySelector(arguments[0]); area.value = arguments[1]; area.dispatchEvent(new Event('input'))", selector, text)


def looks_right(page, name, prepare=None):
    """Pictures in both themes and at the width of a phone; nothing is wider than the screen, and every control has a name."""
    roles = {"button", "textbox", "searchbox", "combobox", "checkbox", "radio", "link", "img", "region"}
    tree = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    nameless = [node["role"]["value"] for node in tree if not node.get("ignored") and node["role"]["value"] in roles and not node.get("name", {}).get("value")]
    assert not nameless, f"{name}: without a name: {nameless}"
    page.picture(f"{name}-light")
    page.scheme("dark")
    page.picture(f"{name}-dark")
    page.scheme("light")
    page.size(390, 844, phone=True)
    try:
        if prepare:
            prepare()
        width = page.run("return document.documentElement.scrollWidth")
        assert width <= 390, f"{name} is {width} px wide on a phone"
        page.picture(f"{name}-phone")
    finally:
        page.size(1440, 900)
